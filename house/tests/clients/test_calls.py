"""Calls of operators, each compiled alone: what differs is told, what does not is not, and the test stays eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from house.clients import suites
from house.clients.__main__ import command
from house.clients.calls import Calls


def right(gm: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    return gm.forward


def off_by_one(gm: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    return lambda *args: [result + 1 for result in gm.forward(*args)]


def broken(gm: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    raise NotImplementedError("no such kernel")


def test_what_eager_gives_is_the_tests_own() -> None:
    with Calls(off_by_one, "cpu"):
        assert torch.add(torch.ones(2), 1).tolist() == [2, 2]


def test_a_compiled_call_that_gives_something_else_is_told() -> None:
    with Calls(off_by_one, "cpu") as calls:
        torch.ones(2, 3).mul(2.0)
    (told,) = calls.differences
    assert told.startswith(
        "aten.mul.Tensor(float32[2, 3] cpu, 2.0): AssertionError: Tensor-likes are not close"
    )


def test_an_error_of_the_backend_is_told() -> None:
    with Calls(broken, "cpu") as calls:
        torch.ones(2).neg()
    assert "aten.neg.default(float32[2] cpu): " in calls.differences[0]
    assert "no such kernel" in calls.differences[0]


def test_calls_of_a_kind_are_judged_once() -> None:
    with Calls(right, "cpu") as calls:
        for size in (2, 2, 3):
            torch.ones(size).neg()
        torch.ones(2, 2).t().neg()
    assert [told for told in calls.judged if "neg" in told] == [
        "aten.neg.default(float32[2] cpu)",
        "aten.neg.default(float32[3] cpu)",
        "aten.neg.default(float32[2, 2] by [1, 2] cpu)",
    ]
    assert calls.differences == []


def test_what_is_written_in_place_is_judged_too() -> None:
    def writes(x: Tensor) -> None:
        x.add_(1)
        torch.mul(x, 2, out=x)

    with Calls("aot_eager", "cpu") as calls:
        writes(torch.ones(3))
    assert calls.differences == []
    assert len(calls.judged) == 2


def test_random_numbers_are_those_that_the_test_drew() -> None:
    torch.manual_seed(0)
    wanted = [torch.rand_like(torch.ones(3)).tolist() for _ in range(2)]
    torch.manual_seed(0)
    with Calls("aot_eager", "cpu") as calls:
        assert [torch.rand_like(torch.ones(3)).tolist() for _ in range(2)] == wanted
    assert calls.differences == []


def test_the_tests_of_op_plugin_are_judged_by_their_calls(tmp_path: Path) -> None:
    for name in ("test_base_ops/test_add.py", "test_custom_ops/test_npu_gelu.py"):
        (tmp_path / "test" / name).parent.mkdir(parents=True)
        (tmp_path / "test" / name).touch()
    found = list(suites.modules({"op-plugin": tmp_path}))
    assert sorted(module.name for module in found) == [
        f"calls-{mode}/{name}" for mode in sorted(suites.MODES) for name in ("test_add", "test_npu_gelu")
    ]
    for module in found:
        mine, theirs = (command(module, air, 1.0, "", tmp_path) for air in (True, False))
        assert mine[mine.index("--calls") + 1] == module.suite.mode
        assert theirs[theirs.index("--calls") + 1] == "aot_eager"
