"""S15: inputs that the program changes are written where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from air_fxpasses import Pipeline, RecoverViewInplace, ReinplaceInputMutated, RemoveNoop, default_passes
from air_fxpasses.testing import compiled_graph, copied, difference, functional_graph, run_graph

aten = torch.ops.aten
cache, k, at = torch.zeros(2, 8, 4), torch.ones(2, 1, 4), torch.tensor([3])


def written(
    function: Callable[..., Any], *inputs: torch.Tensor, passes: Any = None
) -> tuple[list[str], list[str]]:
    gm = functional_graph(function, *inputs)
    eager = run_graph(gm, copied(inputs))
    report = Pipeline(passes or [ReinplaceInputMutated()], verify=True).run(gm, inputs)
    assert not any(step.rolled_back for step in report.steps), report.explain()
    assert difference(eager, run_graph(gm, copied(inputs))) is None
    return [str(n.target) for n in gm.graph.nodes if n.op == "call_function"], [
        r.reason for r in report.refusals
    ]


def test_S15_an_index_put_cache_update_is_one_write() -> None:
    ops, _ = written(lambda c, k, i: (c.index_put_((torch.arange(2), i), k[:, 0]), c.sum())[1], cache, k, at)
    assert ops.count("aten.index_put_.default") == 1
    assert "aten.copy_.default" not in ops
    assert "aten.index_put.default" not in ops


def test_S15_a_slice_of_a_cache_is_one_copy_of_the_slice() -> None:
    ops, _ = written(lambda c, k: (c[:, 3:4].copy_(k), c.sum())[1], cache, k)
    assert ops.count("aten.copy_.default") == 1
    assert not [op for op in ops if "scatter" in op]


def test_S15_a_layer_of_a_stacked_cache_is_written_through_two_views() -> None:
    ops, _ = written(lambda c, k: (c[1][3:4].copy_(k[1]), c.sum())[1], cache, k)
    assert ops.count("aten.copy_.default") == 1
    assert not [op for op in ops if "scatter" in op]


def test_S15_a_chain_of_updates_needs_no_copy() -> None:
    ops, _ = written(lambda c: (c.add_(1), c.mul_(2), c.relu_(), c.sum())[3], cache)
    assert ops[:3] == ["aten.add_.Tensor", "aten.mul_.Tensor", "aten.relu_.default"]
    assert "aten.copy_.default" not in ops


def test_S15_A37_an_update_through_a_view_of_another_shape_is_recovered() -> None:
    def f(c: torch.Tensor, k: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        flat = torch.index_put(c.view(16, 4), [i], k[0])
        c.copy_(flat.view(2, 8, 4))
        return flat.sum()

    ops, _ = written(f, cache, k, at, passes=[RemoveNoop(), RecoverViewInplace()])
    assert "aten.index_put_.default" in ops
    assert "aten.copy_.default" not in ops


def test_S15_an_update_of_a_buffer_of_the_module_is_written_there() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(4))

        count: torch.Tensor

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

    gm = compiled_graph(Counter(), torch.ones(4))
    Pipeline(default_passes(), verify=True).run(gm)
    assert [str(n.target) for n in gm.graph.nodes if n.op == "call_function"] == [
        "aten.add_.Tensor",
        "aten.add.Tensor",
    ]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda c: (old := c.clone(), c.add_(1), old.sum())[2], None),
        (lambda c: c * 2, "which must not change"),
    ],
)
def test_S15_refuses_with_the_reason(function: Callable[..., Any], reason: str | None) -> None:
    _, reasons = written(function, cache)
    assert reason is None or any(reason in r for r in reasons), reasons


def test_S15_the_old_value_read_between_update_and_copy_back_is_kept() -> None:
    def f(c: torch.Tensor) -> torch.Tensor:
        new = c + 1
        total = c.sum()
        c.copy_(new)
        return total

    ops, reasons = written(f, cache)
    assert "aten.add_.Tensor" not in ops
    assert "the old value is read later" in reasons


def test_S15_only_part_of_the_input_is_copied_back() -> None:
    def f(c: torch.Tensor) -> torch.Tensor:
        new = c + 1
        c[0].copy_(new[0])
        return new.sum()

    ops, _ = written(f, cache)
    assert "aten.add_.Tensor" not in ops


def test_fuzz_a_window_between_the_elements_of_its_base_is_not_written() -> None:
    """Found by fuzzing: the slot of an `as_strided_scatter` may lie in the gaps of a strided base."""
    storage = torch.arange(8.0)

    def f(whole: torch.Tensor) -> torch.Tensor:
        return torch.as_strided_scatter(whole, whole.as_strided((2,), (1,), 0) + 1, (2,), (1,), 0)

    strided = storage[::2]
    gm = functional_graph(lambda c: (c.copy_(f(c)), c.sum())[1], strided)
    eager = run_graph(gm, copied([strided]))
    report = Pipeline([RemoveNoop(), ReinplaceInputMutated()]).run(gm, [strided])
    inputs = copied([strided])
    assert difference(eager, run_graph(gm, inputs)) is None
    assert torch.equal(inputs[0].as_strided((8,), (1,), 0)[1::2], storage[1::2])
    assert any("may not be a part of its base" in r.reason for r in report.refusals)


@pytest.mark.parametrize("update", [lambda t: t.cumsum(0), lambda t: t.masked_fill(t > 5, 2)])
def test_fuzz_a_result_that_takes_transposed_strides_is_still_copied_back(
    update: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """Found by fuzzing: in the memory of the transposed input the result is no copy of itself any more."""
    square = torch.arange(16.0).reshape(4, 4)
    ops, _ = written(lambda c: (c.copy_(update(c.t())), c.sum())[1], square)
    assert "aten.copy_.default" in ops
