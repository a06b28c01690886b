"""Control flow in both modes: compiled where that can be, between compiled pieces where it cannot."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch._higher_order_ops import map as mapped
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import air_streams
from air_aclgraph import _conditions
from air_backend import _pieces
from air_backend.errors import GraphSplit

MODES = pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
pytestmark = pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")


def compiled_in(mode: str, function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    run: Callable[..., Any] = torch.compile(function, backend="air", options={"mode": mode})
    return run


def branch(x: Tensor) -> Any:
    h = (x @ x).relu()
    return (torch.cond(h.sum() > 30, lambda t: t + 1, lambda t: t - 1, (h,)) @ x).sum(0)


def rounds(x: Tensor) -> Any:
    return while_loop(lambda a: a.sum() < 100, lambda a: (a * 2 + 1,), (x @ x,))[0].sin()


def size_of_a_branch(x: Tensor) -> Any:
    y = torch.cond(x.sum() > 0, lambda t: t[:2] * 1, lambda t: t[:3] * 1, (x * 2,))
    return (x + 1) @ x.t(), y + 1


def counted(x: Tensor) -> Any:
    count, y = while_loop(lambda i, a: a.sum() < 100, lambda i, a: (i + 1, a * 2 + 1), (0, x + 1))
    return y * count, x @ x


def branch_in_a_branch(x: Tensor) -> Any:
    def inner(t: Tensor) -> Tensor:
        chosen: Tensor = torch.cond(t[0, 0] > 0, lambda s: s * 2, lambda s: s * 3, (t,))
        return chosen

    return torch.cond(x.sum() > 0, inner, lambda t: t - 1, (x @ x,)) + 1


def branches_with_two_results(x: Tensor) -> Any:
    w = x @ x
    y, z = torch.cond(x.sum() > 0, lambda t: (t + w, t.sum()), lambda t: (w - t, t.mean()), (x,))
    return y @ x, z * 2


def running_sums(x: Tensor) -> Any:
    last, sums = scan(lambda carry, row: (carry + row, (carry * row).clone()), x[0] * 0, x + 1)
    return last.sin(), sums @ x


def each_row(x: Tensor) -> Any:
    rows: Any = mapped(lambda row, w: (row @ w).relu(), x * 2, x)  # type: ignore[arg-type]  # torch's own types of it
    return rows + 1


@pytest.mark.sampled(3)
@MODES
@pytest.mark.parametrize(
    "function",
    [
        branch,
        branch_in_a_branch,
        branches_with_two_results,
        rounds,
        size_of_a_branch,
        counted,
        running_sums,
        each_row,
    ],
    ids=lambda function: function.__name__,
)
def test_control_flow_is_decided_at_every_call(
    function: Callable[[Tensor], Any], mode: str, device: str
) -> None:
    compiled = compiled_in(mode, function)
    for seed in range(4):
        torch.manual_seed(seed)
        x = (torch.randn(4, 4) + (1 if seed % 2 else -1)).to(device)
        for found, expected in zip(tree_leaves(compiled(x)), tree_leaves(function(x)), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.sampled(3)
@MODES
@pytest.mark.parametrize("function", [branch, branch_in_a_branch, branches_with_two_results, running_sums])
def test_gradients_go_the_way_that_was_chosen(
    function: Callable[[Tensor], Any], mode: str, device: str
) -> None:
    compiled = compiled_in(mode, function)
    for seed in range(4):
        torch.manual_seed(seed)
        x = (torch.randn(4, 4) + (1 if seed % 2 else -1)).to(device).requires_grad_()
        ours, theirs = (sum(leaf.sum() for leaf in tree_leaves(run(x))) for run in (compiled, function))
        (found,), (expected,) = torch.autograd.grad(ours, [x]), torch.autograd.grad(theirs, [x])
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@MODES
def test_a_checkpoint_gives_eagers_gradients(mode: str, device: str) -> None:
    def function(x: Tensor) -> Any:
        return checkpoint(lambda t: (t @ t).sin().relu(), x * 2, use_reentrant=False) @ x

    compiled = compiled_in(mode, function)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(4, 4).to(device).requires_grad_()
        (found,) = torch.autograd.grad(compiled(x).sum(), [x])
        (expected,) = torch.autograd.grad(function(x).sum(), [x])
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@MODES
def test_a_checkpoint_drops_in_backward_what_it_dropped_in_forward(mode: str, device: str) -> None:
    def dropped(x: Tensor) -> Any:
        return checkpoint(lambda t: torch.dropout(t.sin(), 0.5, True) * 2, x, use_reentrant=False)

    drops_as_much_in_backward(compiled_in(mode, dropped), device)


@MODES
def test_a_checkpoint_that_saves_what_it_dropped_drops_it_in_backward(mode: str, device: str) -> None:
    def saves(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        saved = op is torch.ops.aten.native_dropout.default
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    def dropped(x: Tensor) -> Any:
        inner = lambda t: torch.dropout(t.sin(), 0.5, True) * 2  # noqa: E731
        context = partial(create_selective_checkpoint_contexts, saves)
        return checkpoint(inner, x, use_reentrant=False, context_fn=context)

    drops_as_much_in_backward(compiled_in(mode, dropped), device)


def drops_as_much_in_backward(compiled: Callable[..., Any], device: str) -> None:
    for _ in range(4):
        x = torch.rand(8, 9, device=device).add_(0.1).requires_grad_()
        y = compiled(x)
        y.sum().backward()
        assert x.grad is not None
        torch.testing.assert_close(x.grad.cpu(), torch.where(y == 0, 0, 4 * x.cos()).detach().cpu())
        assert 10 < (y == 0).sum() < 62, "about half of them are dropped"


def unwarned(function: Callable[..., Any]) -> Any:
    """Compiled so that a cut is an error."""
    torch._dynamo.reset()
    counters.clear()
    options: dict[str, Any] = {"mode": "reduce-overhead", "air.uncapturable": "error"}
    return torch.compile(function, backend="air", options=options)


def equal_for(compiled: Any, function: Callable[..., Any], device: str, calls: int = 6) -> None:
    for seed in range(calls):
        torch.manual_seed(seed)
        x = (torch.randn(4, 4) + (1 if seed % 2 else -1)).to(device)
        for found, expected in zip(tree_leaves(compiled(x)), tree_leaves(function(x)), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def branch_on_a_side_stream(x: Tensor) -> Any:
    y = x @ x
    with air_streams.scope.npu_stream_switch("side"):
        z = torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x,))
    return y + 1, z


def branch_that_returns_one_tensor_twice(x: Tensor) -> Any:
    y, z = torch.cond(x.sum() > 0, lambda t: (t * 2, t * 2), lambda t: (t - 1, t - 2), (x,))
    return y, z


CONDITIONS = [
    branch,
    branch_in_a_branch,
    branches_with_two_results,
    branch_on_a_side_stream,
    branch_that_returns_one_tensor_twice,
]


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("npu", marks=pytest.mark.npu("only CANN has conditional nodes"))]
)
@pytest.mark.parametrize("function", CONDITIONS, ids=lambda function: function.__name__)
def test_N28_a_branch_is_part_of_one_capture(function: Callable[..., Any], device: str) -> None:
    equal_for(unwarned(function), function, device)
    assert counters["air"]["captures"] == 1
    assert counters["air"]["replays"] >= 4


@pytest.mark.slow
@pytest.mark.npu("only CANN has conditional nodes")
def test_N28_a_graph_may_have_more_branches_than_torch_has_streams() -> None:
    def steps(x: Tensor) -> Any:
        for bound in range(40):
            x = torch.cond(x.sum() > bound - 20, lambda t: t - 1, lambda t: t + 0.5, (x,))
        return x

    equal_for(unwarned(steps), steps, "npu", calls=4)
    assert counters["air"]["captures"] == 1


@pytest.mark.npu("only CANN has conditional nodes")
def test_N28_values_that_the_caller_keeps_stay_whatever_is_chosen_later() -> None:
    run, kept = unwarned(branch), []
    for seed in range(8):
        torch.manual_seed(seed)
        x = (torch.randn(4, 4) + (1 if seed % 2 else -1)).to("npu")
        kept.append((run(x), branch(x)))
    for found, expected in kept:
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def dropped_in_a_branch(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda t: torch.dropout(t, 0.5, True) * 0, lambda t: t * 0, (x,)) + x


@pytest.mark.parametrize("function", [dropped_in_a_branch, size_of_a_branch, rounds])
def test_N28_what_no_capture_holds_runs_between_pieces(
    accelerator: str, function: Callable[..., Any]
) -> None:
    torch._dynamo.reset()
    _pieces._told.clear()
    run = torch.compile(function, backend="air", options={"mode": "reduce-overhead"})
    with pytest.warns(GraphSplit, match="test_control_flow.py") as told:
        equal_for(run, function, accelerator)
    assert len([one for one in told if one.category is GraphSplit]) == 1


def draws_beside_a_branch(x: Tensor) -> Any:
    first = torch.rand_like(x)
    chosen = torch.cond(x.sum() > 0, lambda t: t + torch.rand_like(t), lambda t: t - torch.rand_like(t), (x,))
    return first, chosen, torch.rand_like(x)


def test_draws_beside_a_branch_that_draws_keep_their_turn(accelerator: str) -> None:
    run = torch.compile(draws_beside_a_branch, backend="air", options={"mode": "reduce-overhead"})
    x = torch.ones(4, 4, device=accelerator)
    for seed in range(3):
        torch.manual_seed(seed)
        expected = draws_beside_a_branch(x)
        torch.manual_seed(seed)
        for found, wanted in zip(run(x), expected, strict=True):
            torch.testing.assert_close(found, wanted)


def selected_in_a_branch(x: Tensor) -> Any:
    def inner(t: Tensor) -> Any:
        return torch.cond(t[0, 0] > 0, lambda s: torch.kthvalue(s, 2)[0].clone(), lambda s: s.sum(0), (t,))

    return torch.cond(x.sum() > 0, inner, lambda t: t.sum(0), (x @ x,)) + 1


def test_a_branch_with_an_operator_of_no_translation_is_told_of_once_by_its_line() -> None:
    torch._dynamo.reset()
    _pieces._told.clear()
    run = torch.compile(selected_in_a_branch, backend="air", options={"mode": "max-autotune"})
    with pytest.warns(
        GraphSplit, match=r"aten\.kthvalue.*\n.*test_control_flow\.py.*kthvalue\(s, 2\)"
    ) as told:
        equal_for(run, selected_in_a_branch, "cpu")
    assert len([one for one in told if one.category is GraphSplit]) == 1


def drawn_in_a_branch(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda t: t + torch.rand_like(t), lambda t: t - 1, (x,))


def test_a_branch_of_max_autotune_draws_new_numbers_at_every_call() -> None:
    run = compiled_in("max-autotune", dropped_in_a_branch)
    noisy = compiled_in("max-autotune", drawn_in_a_branch)
    x = torch.ones(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphSplit)
        torch.testing.assert_close(run(x), x)
        first, second = noisy(x), noisy(x)
        torch.testing.assert_close(noisy(-x), -x - 1)
    assert not torch.equal(first, second)
    assert bool(((first >= 1) & (first < 2)).all())


@pytest.mark.npu("only CANN has conditional nodes")
@pytest.mark.parametrize("when", ["begin", "body"])
def test_N28_a_device_that_refuses_a_conditional_node_gets_pieces(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: Any) -> Any:
        raise RuntimeError("the device has no conditional nodes")

    if when == "begin":
        monkeypatch.setattr(torch.get_device_module("npu").NPUGraph, "begin_capture_to_if_node", refused)
    else:
        monkeypatch.setattr(_conditions._Body, "run", refused)
    monkeypatch.setattr(_conditions, "_refused", [])
    torch._dynamo.reset()
    run = torch.compile(branch, backend="air", options={"mode": "reduce-overhead"})
    equal_for(run, branch, "npu")
    assert _conditions._refused == ["the device has no conditional nodes"]
    monkeypatch.undo()
    equal_for(unwarned(branch), branch, "npu")


@MODES
def test_nested_regions_are_part_of_the_graph(mode: str) -> None:
    layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))

    @torch.compiler.nested_compile_region
    def layer(of: torch.nn.Module, x: Tensor) -> Tensor:
        return torch.sin(of(x)) + x

    def model(x: Tensor) -> Tensor:
        for each in layers:
            x = layer(each, x)
        return x

    run = compiled_in(mode, model)
    ours, theirs = (torch.ones(3, 4, requires_grad=True) for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphSplit)
        result = run(ours)
        result.sum().backward()
    expected = model(theirs)
    expected.sum().backward()
    torch.testing.assert_close((result, ours.grad), (expected, theirs.grad))


@MODES
def test_nested_regions_inside_a_checkpoint_train(mode: str) -> None:
    @torch.compiler.nested_compile_region
    def layer(x: Tensor, weight: Tensor) -> Tensor:
        return torch.sin(x @ weight).exp()

    def model(x: Tensor, weight: Tensor) -> Tensor:
        def both(x: Tensor, weight: Tensor) -> Any:
            return layer(x, weight) * layer(weight, x)

        result: Tensor = checkpoint(both, x, weight, use_reentrant=False)
        return result.sum()

    given, found = [torch.randn(4, 4) for _ in range(2)], []
    for run in (compiled_in(mode, model), model):
        leaves = [one.clone().requires_grad_() for one in given]
        result = run(*leaves)
        result.backward()
        found.append([result, *(leaf.grad for leaf in leaves)])
    torch.testing.assert_close(*found)
