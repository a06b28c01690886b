"""Control flow and other higher-order operators on CPU tensors: decided again at every call, equal to eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import flex_attention
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from aclgraph_backend import Backend, executable
from air_aclgraph import HostRuntime, Request
from air_aclgraph.errors import IllegalDuringCapture


def branches(x: Tensor) -> Any:
    y = x * 3
    z = torch.cond(x.sum() > 0, lambda t: t.sin() + 1, lambda t: t.cos() * 2, (y,))
    return z + y


def nested_branches(x: Tensor) -> Any:
    def inner(t: Tensor) -> Any:
        return torch.cond(t[0, 0] > 0, lambda u: u * 2, lambda u: u - 1, (t,))

    return torch.cond(x.sum() > 0, inner, lambda t: t.exp(), (x + 1,))


def branches_that_return_several(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda t: (t + 1, t.t() * 2), lambda t: (t - 1, (t * 3).t().clone()), (x,))


def branches_over_a_view(x: Tensor) -> Any:
    y = (x + 1).t()[1:]
    z = torch.cond(y.sum() > 0, lambda t: t.as_strided((2, 2), (1, 2)) * 1, lambda t: t[:2, :2] * 2, (y,))
    return z + y[:2, :2]


def branches_that_write(x: Tensor) -> Any:
    def positive(t: Tensor) -> Any:
        t.add_(1)
        return t.sin()

    def negative(t: Tensor) -> Any:
        t.mul_(2)
        return t.cos()

    y = x * 1
    return (
        torch.cond(x.sum() > 0, positive, negative, (x,))
        + torch.cond(x[0, 0] > 0, positive, negative, (y,))
        + y
    )


def random_branches(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda t: t + torch.rand(4), lambda t: t * torch.randn(4, 4), (x,))


@torch.compiler.nested_compile_region
def region(a: Tensor, b: Tensor) -> Any:
    return a.sin() * b


def regions(x: Tensor) -> Any:
    return region(x, x + 1) + region(x * 2, x)


def rounds(x: Tensor) -> Any:
    start = torch.zeros((), dtype=torch.int64)
    return while_loop(lambda i, a: a.sum() < 100, lambda i, a: (i + 1, a * 1.5 + 1), (start, x))


def counted_rounds(x: Tensor) -> Any:
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 1.5), (0, x))[1]


def prefix(x: Tensor) -> Any:
    return scan(lambda c, a: (c + a, c * a), x[0], x)


def each_row(x: Tensor) -> Any:
    return map_over(lambda a, *rest: a.sin() * 2, x)


def sums(x: Tensor) -> Any:
    return associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")


def attention(x: Tensor) -> Any:
    q = x.reshape(1, 1, *x.shape)
    return flex_attention(q, q, q, lambda score, b, h, i, j: score + i - j)


def foreach(x: Tensor) -> Any:
    parts = [x + 1, x * 2]
    torch._foreach_add_(parts, 3.0)
    torch._foreach_mul_(parts, parts)
    return parts


def foreach_on_inputs(x: Tensor) -> Any:
    torch._foreach_add_([x], 3.0)
    torch._foreach_addcmul_([x[0]], [x[1]], [x[2]], 0.5)
    return x + 1


FUNCTIONS = (
    branches, nested_branches, branches_that_write, random_branches, branches_that_return_several,
    branches_over_a_view, regions, rounds, counted_rounds, prefix, each_row, sums, attention, foreach,
    foreach_on_inputs,
)  # fmt: skip


def inputs(rows: int) -> list[Tensor]:
    """Values of both signs, so that predicates come out both ways."""
    torch.manual_seed(rows)
    return [torch.randn(rows, 4) + shift for shift in (2.0, -2.0, 0.5, -0.5)]


@pytest.mark.sampled(5)
@torch.no_grad()  # torch takes writes in a branch in no other mode
@pytest.mark.parametrize(
    ("function", "outputs"),
    [*((function, "view") for function in FUNCTIONS), (branches, "clone"), (rounds, "clone")],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_control_flow_is_decided_anew_at_every_call(function: Callable[..., Any], outputs: str) -> None:
    backend = Backend(air__outputs=outputs)
    compiled = torch.compile(function, backend=backend)
    twin = torch.empty(4, 4)
    for x in inputs(4):
        twin.copy_(x)
        torch.manual_seed(1)
        expected, state = function(x), torch.get_rng_state()
        torch.manual_seed(1)
        found = compiled(twin)
        assert torch.equal(x, twin)
        assert torch.equal(state, torch.get_rng_state())
        for e, f in zip(tree_leaves(expected), tree_leaves(found), strict=True):
            torch.testing.assert_close(f, e)
            assert f.stride() == e.stride()
    assert backend.only.stats()["replays"] == 3


@pytest.mark.sampled(4)
@pytest.mark.parametrize("function", [branches, rounds, prefix, attention], ids=lambda f: f.__name__)
def test_control_flow_over_other_sizes_is_captured_for_each(function: Callable[..., Any]) -> None:
    compiled = torch.compile(function, backend=Backend(), dynamic=True)
    for rows in (4, 6, 4, 5, 6):
        for x in inputs(rows):
            torch.testing.assert_close(tree_leaves(compiled(x)), tree_leaves(function(x)))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("function", [branches, nested_branches, prefix, each_row], ids=lambda f: f.__name__)
def test_gradients_pass_through_control_flow(function: Callable[..., Any]) -> None:
    compiled = torch.compile(function, backend=Backend())
    for x in inputs(4):
        grads = []
        for run in (function, compiled):
            leaf = x.clone().requires_grad_()
            sum(t.sum() for t in tree_leaves(run(leaf))).backward()
            grads.append(leaf.grad)
        torch.testing.assert_close(grads[1], grads[0])


def test_a_checkpoint_repeats_the_random_numbers_of_its_forward_half() -> None:
    layer = nn.Linear(4, 4)

    def function(x: Tensor) -> Any:
        return checkpoint(lambda t: torch.dropout(layer(t).sin(), 0.5, True).cos(), x, use_reentrant=False)

    compiled = torch.compile(function, backend=Backend())
    for number, x in enumerate(inputs(4)):
        results = []
        for run in (function, compiled):
            torch.manual_seed(number)
            leaf = x.clone().requires_grad_()
            layer.zero_grad()
            run(leaf).sum().backward()
            results.append((leaf.grad, layer.weight.grad, torch.get_rng_state()))
        torch.testing.assert_close(results[1], results[0])


def test_control_flow_keeps_the_order_of_streams() -> None:
    runtime = HostRuntime(order="shuffled")
    run = executable(branches, torch.ones(3, 4), runtime=runtime)
    for x in inputs(3):
        for _ in range(3):
            torch.testing.assert_close(run(x), branches(x))


def test_what_a_body_keeps_for_itself_is_neither_moved_nor_overwritten() -> None:
    table = torch.arange(4.0)
    kept = table.clone()

    def function(x: Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda t: table + 0 * t[0], lambda t: table * 2 + t[0] * 0, (x,)) + 1

    compiled = torch.compile(function, backend=Backend(air__outputs="clone"))
    for x in inputs(3):
        torch.testing.assert_close(compiled(x), function(x))
    assert torch.equal(table, kept)


def test_a_result_whose_size_depends_on_the_branch_is_refused_with_its_line() -> None:
    def function(x: Tensor) -> Any:
        y = torch.cond(x.sum() > 0, lambda t: t[:2] * 1, lambda t: t[:3] * 1, (x,))
        return y + 1

    with pytest.raises(Exception, match=r"cond cannot be captured .*: its result 0 has the size") as caught:
        torch.compile(function, backend=Backend())(torch.ones(4, 4))
    assert "run_eagerly" in str(caught.value)
    assert "y = torch.cond(" in str(caught.value)


def test_a_number_that_a_loop_counts_is_refused_with_its_line() -> None:
    def function(x: Tensor) -> Any:
        count, y = while_loop(lambda i, a: a.sum() < 100, lambda i, a: (i + 1, a * 2 + 1), (0, x))
        return y * count

    with pytest.raises(
        Exception, match=r"while_loop cannot be captured .*: its result 0 is a number"
    ) as caught:
        torch.compile(function, backend=Backend())(torch.ones(4, 4))
    assert "test_higher_order.py" in str(caught.value)


def test_a_result_that_changes_its_size_between_replays_is_an_error() -> None:
    flags = iter((3, 3, 2))

    def sized(x: Tensor) -> Tensor:
        return x[: next(flags)] + 1

    hop = torch.ops.higher_order.cond

    def body(x: Tensor) -> tuple[Tensor, ...]:
        return (hop(x.sum() > 0, sized, sized, (x,)) * 2,)

    recording = HostRuntime().record(body, (torch.ones(4),), Request())
    recording.replay()
    with pytest.raises(IllegalDuringCapture, match=r"size \(2,\) now and was torch.float32 of size \(3,\)"):
        recording.replay()


def test_effects_on_the_host_happen_at_every_call(capfd: pytest.CaptureFixture[str]) -> None:
    def function(x: Tensor) -> Any:
        torch.ops.higher_order.print("rows {}", x.shape[0])
        return x + 1

    compiled = torch.compile(function, backend=Backend())
    for x in inputs(4)[:3]:
        torch.testing.assert_close(compiled(x), x + 1)
    assert capfd.readouterr().out.count("rows 4") == 3


def test_a_result_that_is_turned_afterwards_is_landed_as_it_was() -> None:
    def body(x: Tensor) -> tuple[Tensor, ...]:
        y = torch.ops.higher_order.cond(x.sum() > 0, lambda t: t[None] + 1, lambda t: t[None] - 1, (x,))
        return y.mul_(2), y.squeeze_(0) + 1

    x = torch.ones(4)
    recording = HostRuntime().record(body, (x,), Request())
    for value in (-1.0, 2.0):
        x.fill_(value)
        recording.replay()
        expected = 2 * (x + 1 if value > 0 else x - 1)
        torch.testing.assert_close(recording.outputs, (expected, expected + 1))
