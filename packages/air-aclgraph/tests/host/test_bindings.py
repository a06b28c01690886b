"""A faster entry to a kernel is taken only if it is proven to be the same call."""

from __future__ import annotations

import torch

from air_aclgraph.host._bindings import fastest
from air_aclgraph.host._recorder import Recorder, Task


def task_of(function: object, *inputs: torch.Tensor) -> Task:
    recorder = Recorder(inputs)
    with torch.no_grad(), recorder:
        function(*inputs)  # type: ignore[operator]  # any function
    (task,) = [step for step in recorder.steps if isinstance(step, Task)]
    return task


def test_a_plain_function_is_taken_for_a_matrix_product() -> None:
    task = task_of(lambda a, b: torch.ops.aten.mm(a, b), torch.randn(2, 2), torch.randn(2, 2))
    assert fastest(task) is torch._C._VariableFunctions.mm


def test_a_call_that_arrives_elsewhere_is_not_taken() -> None:
    task = task_of(lambda a: torch.ops.aten.sum.dim_IntList(a, [0]), torch.randn(2, 2))
    chosen = fastest(task)
    out = task.kwargs["out"]
    chosen(*task.args, **task.kwargs)
    torch.testing.assert_close(out, task.args[0].sum(0))


def test_a_call_without_a_plain_function_stays_as_it_is() -> None:
    task = task_of(lambda a: torch.ops.aten.native_layer_norm(a, [2], None, None, 1e-5), torch.randn(2, 2))
    assert fastest(task) is task.call
