"""An operator that a device refuses in a capture: the graph is cut there, nothing runs twice, and it is remembered."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

import air_aclgraph
from air_aclgraph.errors import IllegalDuringCapture, InputRefused
from air_backend import _pieces, _records
from air_backend._describe import describe
from air_backend.errors import GraphSplit

_NAMES = ("waits", "waits_and_writes", "waits_for_doubles")


@torch.library.custom_op("air_learned::waits", mutates_args=())
def waits(x: Tensor) -> Tensor:
    """Looks at a value on the host, and says so nowhere."""
    return x * 2 if float(x.sum().item()) > -1e9 else x.clone()


@waits.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("air_learned::waits_and_writes", mutates_args=("x",))
def waits_and_writes(x: Tensor) -> None:
    x.add_(1 if float(x.sum().item()) > -1e9 else 0)


@torch.library.custom_op("air_learned::waits_for_doubles", mutates_args=())
def waits_for_doubles(x: Tensor) -> Tensor:
    return x * 2 if x.dtype is not torch.float64 or float(x.sum().item()) > -1e9 else x.clone()


@waits_for_doubles.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    torch._dynamo.reset()
    _pieces._told.clear()
    _records.close_all()
    yield
    for name in _NAMES:
        air_aclgraph.unregister_uncapturable(f"air_learned::{name}")


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(
        function, backend="air", dynamic=False, options={"mode": "reduce-overhead", **options}
    )


def test_N23_what_a_device_refuses_for_some_types_is_captured_for_others(accelerator: str) -> None:
    def program(x: Tensor) -> Tensor:
        return torch.as_tensor(waits_for_doubles(x + 1)) * 3

    for dtype, cuts in ((torch.float64, 1), (torch.float32, 0), (torch.float64, 1)):
        torch._dynamo.reset()
        _pieces._told.clear()
        x = torch.randn(4, device=accelerator, dtype=dtype)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            run = compiled(program)
            for _ in range(3):
                torch.testing.assert_close(run(x), program(x))
        assert [issubclass(one.category, GraphSplit) for one in said].count(True) == cuts
    learned = air_aclgraph.registered_uncapturable()
    assert "air_learned::waits_for_doubles.default of torch.float64" in learned


def test_N23_a_capture_that_fails_is_cut_where_it_failed(accelerator: str) -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        return torch.as_tensor(waits((x + 1).relu())) @ y + x

    run = compiled(program)

    def called_with_others() -> None:
        for _ in range(5):
            x, y = torch.randn(3, 3, device=accelerator), torch.randn(3, 3, device=accelerator)
            torch.testing.assert_close(run(x, y), program(x, y))

    with pytest.warns(GraphSplit, match=r"air_learned\.waits.*\n(.*\n)*.*test_learned_pieces.py"):
        called_with_others()
    ((record, executable),) = _records.alive()
    assert isinstance(executable, air_aclgraph.Executable)
    told = executable.explain()["split"]
    assert [each["operator"] for each in told["eager"]] == ["air_learned.waits.default"]
    assert len(told["pieces"]) == len(executable.pieces) == 2
    assert [each.target for each in executable.eager] == ["air_learned.waits.default"]
    assert executable.stats()["split"]["captures"] == 2
    graph = describe(record, executable)
    assert graph["pieces"] == 2
    assert graph["eager"] == told["eager"]
    with pytest.raises(InputRefused, match=r"2 captured pieces.*\n.*take air_learned\.waits"):
        executable.pin(*(torch.randn(3, 3, device=accelerator) for _ in range(2)))


def test_N23_what_was_learned_cuts_later_graphs_at_once(accelerator: str) -> None:
    x = torch.randn(3, device=accelerator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(lambda x: waits(x) + 1)(x)
        assert "air_learned::waits.default of torch.float32" in air_aclgraph.registered_uncapturable()
        second = compiled(lambda x: waits(x + 2) * 3)
        before = torch._dynamo.utils.counters["air"]["capture_failures"]
        for _ in range(3):
            torch.testing.assert_close(second(x), (x + 2) * 2 * 3)
        assert torch._dynamo.utils.counters["air"]["capture_failures"] == before


@pytest.mark.parametrize("warmup", [0, 1, 2])
def test_N23_what_the_call_before_the_split_has_written_is_written_once(
    accelerator: str, warmup: int
) -> None:
    def program(x: Tensor, state: Tensor) -> Tensor:
        state.mul_(2)
        waits_and_writes(state)
        return x + state

    run = compiled(program, **{"air.warmup": warmup})
    x = torch.randn(3, device=accelerator)
    state, expected = torch.ones(3, device=accelerator), torch.ones(3, device=accelerator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(5):
            torch.testing.assert_close(run(x, state), program(x, expected))
            torch.testing.assert_close(state, expected)


def test_N23_a_training_step_is_cut_in_both_halves(accelerator: str) -> None:
    def setup(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        pass

    waits.register_autograd(lambda ctx, grad: waits(grad), setup_context=setup)

    def program(x: Tensor, w: Tensor) -> Tensor:
        return torch.as_tensor(waits(x @ w)).sin().mul(2).sum()

    run = compiled(program)
    w = torch.randn(3, 3, device=accelerator, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(4):
            x = torch.randn(3, 3, device=accelerator)
            (own,) = torch.autograd.grad(run(x, w), [w])
            (eager,) = torch.autograd.grad(program(x, w), [w])
            torch.testing.assert_close(own, eager)


def test_N23_an_error_is_given_instead_where_it_is_asked_for(accelerator: str) -> None:
    run = compiled(lambda x: waits(x) + 1, **{"air.uncapturable": "error"})
    with pytest.raises(IllegalDuringCapture, match=r"test_learned_pieces.py:\d+"):
        run(torch.randn(3, device=accelerator))
    assert "air_learned::waits.default" not in air_aclgraph.registered_uncapturable()


@pytest.mark.npu("what torch composes waits for the host on an NPU")
def test_N23_an_operator_that_torch_composes_is_learned_as_well() -> None:
    def scored(q: Tensor) -> Tensor:
        return flex_attention(q * 2, q, q, lambda score, b, h, i, j: score + i - j) + 1

    run = compiled(scored)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            q = torch.randn(1, 2, 16, 8, device="npu")
            torch.testing.assert_close(run(q), scored(q))
    assert "higher_order::flex_attention.default" in air_aclgraph.registered_uncapturable()
    air_aclgraph.unregister_uncapturable(torch.ops.higher_order.flex_attention)


@pytest.mark.npu("only torch_npu computes this mean on the host")
def test_N23_an_operator_that_a_pass_has_put_in_place_is_learned_as_the_one_it_was() -> None:
    """torch_npu computes a mean of scattered values on the host."""

    def program(x: Tensor, index: Tensor) -> Tensor:
        return torch.zeros(4, device=x.device).scatter_reduce(0, index, x, "mean", include_self=False) * 2

    run = compiled(program)
    index = torch.tensor([0, 1, 2, 3, 0, 1, 2, 0], device="npu")
    try:
        for _ in range(3):
            x = torch.randn(8, device="npu")
            torch.testing.assert_close(run(x, index), program(x, index))
        learned = [name.partition(" of ")[0] for name in air_aclgraph.registered_uncapturable()]
        assert "aten::scatter_reduce.two" in learned
        assert "aten::scatter_reduce_.two" not in learned
    finally:
        air_aclgraph.unregister_uncapturable("aten::scatter_reduce.two")
