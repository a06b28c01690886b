"""Stream code in bodies of higher-order operators: it is ignored with a warning, and what it ordered stays ordered."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from air_streams import STREAM_OPS, ScopeIgnored, ops, scope
from streams_models import compiled

made, after = (ops.npu_create_tagged_event(tag) for tag in ("made", "after"))
switch = scope.npu_stream_switch
native = torch.Stream(device="cpu")


def in_a_branch(x: torch.Tensor) -> torch.Tensor:
    def branch(x: torch.Tensor) -> torch.Tensor:
        with switch("side"):
            y = x + 1
        with switch("side"):
            return y * 2

    result: torch.Tensor = torch.cond(x.sum() > 0, branch, lambda x: x - 1, (x,))
    return result


def between_scopes(x: torch.Tensor) -> torch.Tensor:
    """`side` makes what the body reads on it, and reads what the body makes on it; no wait is needed for that."""

    def branch(y: torch.Tensor) -> torch.Tensor:
        with switch("side"):
            return y * 2

    with switch("side"):
        y = x + 1
    z = torch.cond(x.sum() > 0, branch, lambda y: y - 1, (y,))
    with switch("side"):
        z = z * 3
        ops.npu_tagged_event_record(after)
    ops.npu_tagged_event_wait(after)
    result: torch.Tensor = z + 1
    return result


def events_of_a_body(x: torch.Tensor) -> torch.Tensor:
    """A body waits for an event from before it, and records one for what comes after."""

    def branch(y: torch.Tensor) -> torch.Tensor:
        ops.npu_tagged_event_wait(made)
        z = y * 2
        ops.npu_tagged_event_record(after)
        return z

    with switch("a"):
        y = x + 1
        ops.npu_tagged_event_record(made)
    z = torch.cond(x.sum() > 0, branch, lambda y: y - 1, (y,))
    with switch("b"):
        ops.npu_tagged_event_wait(after)
        z = z * 3
    ops.wait([z])
    result: torch.Tensor = z + 1
    return result


def waits_for_tensors(x: torch.Tensor) -> torch.Tensor:
    def branch(y: torch.Tensor) -> torch.Tensor:
        return scope.npu_wait_tensor(y, y) * 2

    with switch("a"):
        y = x + 1
    result: torch.Tensor = torch.cond(x.sum() > 0, branch, lambda y: y - 1, (y,))
    return result


def native_in_a_branch(x: torch.Tensor) -> torch.Tensor:
    def branch(x: torch.Tensor) -> torch.Tensor:
        with native:
            return x + 1

    result: torch.Tensor = torch.cond(x.sum() > 0, branch, lambda x: x - 1, (x,))
    return result


@pytest.mark.parametrize(
    "function", [in_a_branch, between_scopes, events_of_a_body, waits_for_tensors, native_in_a_branch]
)
def test_streams_in_a_branch_are_ignored_with_a_warning_and_the_rest_stays_ordered(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    x = torch.rand(4)
    expected = function(x)
    with pytest.warns(ScopeIgnored, match=r"body of cond.*\n.*test_bodies\.py:") as caught:
        result, backend = compiled(function, x)
    assert [warning.category for warning in caught] == [ScopeIgnored]
    torch.testing.assert_close(result, expected)
    assert backend.plans[0].check() == ()


def test_core_limits_of_a_branch_are_told_by_their_name_and_need_no_event() -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        with scope.limit_core_num(4, 8):
            return x + 1

    def program(x: torch.Tensor) -> Any:
        with switch("side"):
            y = x + 1
        ops.wait([y])
        return torch.cond(x.sum() > 0, branch, lambda x: x - 1, (y,))

    x = torch.rand(4)
    with pytest.warns(ScopeIgnored, match="the core limits in the body of cond are ignored") as caught:
        result, backend = compiled(program, x)
    assert [warning.category for warning in caught] == [ScopeIgnored]
    torch.testing.assert_close(result, x + 2)
    assert not any("event" in str(node.target) for graph in backend.graphs for node in graph.graph.nodes)


def test_each_call_of_a_region_is_ordered() -> None:
    @torch.compiler.nested_compile_region
    def region(y: torch.Tensor) -> torch.Tensor:
        with switch("side"):
            return y * 2

    def program(x: torch.Tensor) -> torch.Tensor:
        first = region(x)
        with switch("side"):
            y = first + 1
        second: torch.Tensor = region(y)
        with switch("side"):
            z = second * 3
        ops.wait([z])
        return z + 1

    x = torch.rand(4)
    with pytest.warns(ScopeIgnored, match="invoke_subgraph") as caught:
        result, backend = compiled(program, x)
    assert [warning.category for warning in caught] == [ScopeIgnored, ScopeIgnored]
    torch.testing.assert_close(result, program(x))
    assert backend.plans[0].check() == ()


def test_a_checkpoint_is_traced_for_training_without_the_streams_of_its_body() -> None:
    def block(x: torch.Tensor) -> torch.Tensor:
        with switch("side"):
            y = x.sin()
        ops.wait([y])
        return y * x

    def program(x: torch.Tensor) -> Any:
        return checkpoint(block, x, use_reentrant=False)

    ours, theirs = (torch.ones(4, requires_grad=True) for _ in range(2))
    program(theirs).sum().backward()
    with pytest.warns(ScopeIgnored, match="tag_activation_checkpoint"):
        result, backend = compiled(program, ours)
    result.sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert not any(node.target in STREAM_OPS for graph in backend.graphs for node in graph.graph.nodes)


def test_a_checkpoint_that_trains_nothing_keeps_its_streams() -> None:
    def block(x: torch.Tensor) -> torch.Tensor:
        with switch("side"):
            y = x.sin()
        ops.wait([y])
        return y * x

    with warnings.catch_warnings():
        warnings.simplefilter("error", ScopeIgnored)
        _, backend = compiled(lambda x: checkpoint(block, x, use_reentrant=False), torch.ones(4))
    assert backend.plans[0].is_multi_stream


def test_native_streams_of_an_autograd_function_are_ignored_in_both_halves() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            with native:
                return x * 2

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            with native:
                return gradients[0] * 2

    def program(x: torch.Tensor) -> Any:
        return Doubled.apply(x) + 1  # type: ignore[no-untyped-call]  # torch annotates it not

    x = torch.ones(4, requires_grad=True)
    with pytest.warns(ScopeIgnored, match="autograd_function_apply"):
        result, _ = compiled(program, x)
    result.sum().backward()
    torch.testing.assert_close(x.grad, torch.full((4,), 2.0))
