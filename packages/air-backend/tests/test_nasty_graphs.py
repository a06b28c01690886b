"""Ten graphs that are hard to cut: the same numbers as eager in every call, in both modes, on every ground."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import air_aclgraph
import air_streams
from air_backend import _pieces
from air_backend.errors import GraphSplit

MODES = ("reduce-overhead", "max-autotune")
pytestmark = pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")


@torch.library.custom_op("air_nasty::looks", mutates_args=())
def looks(x: Tensor) -> Tensor:
    """Waits for the device, and says so nowhere."""
    return x * 2 if float(x.sum().item()) > -1e9 else x.clone()


@looks.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _setup(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    pass


looks.register_autograd(lambda ctx, grad: looks(grad), setup_context=_setup)


@torch.library.custom_op("air_nasty::rotates", mutates_args=("x",))
def rotates(x: Tensor) -> None:
    x.copy_(x.roll(int(x.argmax().item())))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    _pieces._told.clear()
    air_aclgraph.register_uncapturable("air_nasty::rotates", "it looks at a value")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        yield
    for name in ("looks", "rotates"):
        air_aclgraph.unregister_uncapturable(f"air_nasty::{name}")
    torch._dynamo.reset()


def wait_in_a_loop(x: Tensor, w: Tensor) -> Tensor:
    for _ in range(4):
        x = (x @ w).tanh() * x.abs().max().item()
    return x


def sizes_that_only_a_run_tells(x: Tensor, w: Tensor) -> Tensor:
    rows = (x.sum(1) > 0).nonzero().squeeze(1)
    return (x[rows] @ w).relu().sum(0) + w


def an_operator_that_waits(x: Tensor, w: Tensor) -> Tensor:
    return torch.as_tensor(looks((x @ w).relu())) @ w + x


def a_write_through_a_mask(x: Tensor, w: Tensor) -> Tensor:
    x[x > 0] = w[w > w.median()][0]
    return (x @ w).relu()


def rows_written_through_a_mask(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    picked = x.sum(1) > 0
    x[picked] = x[picked].flip(0) * 2
    return x @ w, x[0]


def a_view_across_the_cut(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = x @ w
    part = y[1:]
    rotates(part)
    part.add_(1)
    return y * 2, part


def an_input_written_on_both_sides(x: Tensor, w: Tensor) -> Tensor:
    x.mul_(2)
    rotates(x)
    x.add_(w)
    rotates(x)
    return x.sin()


def outputs_that_share_memory_over_a_cut(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    y = x + w
    rotates(w)
    return y, y[0], w.t()


def a_number_that_decides(x: Tensor, w: Tensor) -> Tensor:
    count = int((x > 0).sum().item())
    torch._check(count >= 0)
    torch._check(count <= x.numel())
    return x.flatten()[:count].sum() * w + torch.arange(count, device=x.device).sum()


READY, DONE = (air_streams.ops.npu_create_tagged_event(tag) for tag in ("nasty ready", "nasty done"))


def two_streams(x: Tensor, w: Tensor) -> Tensor:
    y = x @ w
    air_streams.ops.npu_tagged_event_record(READY)
    with air_streams.scope.npu_stream_switch("side"):
        air_streams.ops.npu_tagged_event_wait(READY)
        side = torch.as_tensor(looks(y.relu())) * 3
        air_streams.ops.npu_tagged_event_record(DONE)
    beside = y.sin() @ w
    air_streams.ops.npu_tagged_event_wait(DONE)
    return side + beside


PROGRAMS = (
    wait_in_a_loop,
    sizes_that_only_a_run_tells,
    an_operator_that_waits,
    a_write_through_a_mask,
    rows_written_through_a_mask,
    a_view_across_the_cut,
    an_input_written_on_both_sides,
    outputs_that_share_memory_over_a_cut,
    a_number_that_decides,
    two_streams,
)


def given(seed: int, device: str) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(4, 4, generator=draw).to(device), torch.randn(4, 4, generator=draw).to(device)


def same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected)
    for one, other in zip(
        torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected), strict=True
    ):
        assert (one.stride(), one.storage_offset()) == (other.stride(), other.storage_offset())


@pytest.mark.sampled(5)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_N23_a_nasty_graph_does_what_eager_does(program: Callable[..., Any], mode: str, device: str) -> None:
    run = torch.compile(program, backend="air", options={"mode": mode}, fullgraph=True)
    kept = []
    with torch.no_grad():
        for seed in range(5):
            theirs, ours = given(seed, device), given(seed, device)
            kept.append((run(*ours), program(*theirs)))
            same(ours, theirs)
    for found, expected in kept:
        same(found, expected)


@pytest.mark.parametrize("mode", MODES)
def test_N23_a_cut_inside_training_gives_eagers_gradients(mode: str, device: str) -> None:
    def program(x: Tensor, w: Tensor) -> Tensor:
        return (torch.as_tensor(looks((x @ w).tanh())) * x.exp()).sin().sum()

    run = torch.compile(program, backend="air", options={"mode": mode})
    for seed in range(5):
        x, w = (t.requires_grad_() for t in given(seed, device))
        same(torch.autograd.grad(run(x, w), [x, w]), torch.autograd.grad(program(x, w), [x, w]))


@pytest.mark.parametrize(
    ("program", "operator", "line"),
    [
        (sizes_that_only_a_run_tells, "nonzero", "(x.sum(1) > 0).nonzero()"),
        (an_input_written_on_both_sides, "air_nasty", "rotates(x)"),
    ],
    ids=lambda v: getattr(v, "__name__", None),
)
def test_N23_a_graph_that_may_not_be_cut_is_refused_with_operator_line_and_advice(
    program: Callable[..., Any], operator: str, line: str, device: str
) -> None:
    options: dict[str, Any] = {"mode": "reduce-overhead", "air.uncapturable": "error"}
    run = torch.compile(program, backend="air", options=options, fullgraph=True)
    with torch.no_grad(), pytest.raises(Exception, match=operator) as caught:
        run(*given(0, device))
    told = str(caught.value)
    assert "test_nasty_graphs.py" in told
    assert line in told
    assert re.search(r"advice|uncapturable = 'split'", told)


def test_N23_what_is_cut_is_told_once_for_each_line() -> None:
    run = torch.compile(an_input_written_on_both_sides, backend="air", options={"mode": "reduce-overhead"})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", GraphSplit)
        for seed in range(3):
            run(*given(seed, "cpu"))
    (told,) = (str(one.message) for one in caught if issubclass(one.category, GraphSplit))
    assert told.count("rotates(x)") == 2


def few_enough(x: Tensor) -> Tensor:
    number = x.sum().item()
    torch._check(number < 4)
    return x * number


def four_rows(x: Tensor) -> Tensor:
    found = x.nonzero()
    torch._check(found.size(0) == 4)
    return found + 1


def four_together(x: Tensor) -> Tensor:
    number = x.sum().item()
    torch._check(number == 4)
    return x * number


def no_negative(x: Tensor) -> Tensor:
    number = x[0].item()
    torch._check(number >= 0)
    return x * 2 if number >= 0 else x * 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("program", "good", "bad"),
    [
        (few_enough, [1, 2, 0, 0], [2, 2, 0, 0]),
        pytest.param(
            four_rows,
            [1, 1, 1, 1, 0],
            [1, 1, 0, 0, 0],
            marks=pytest.mark.skipif(torch.__version__ < "2.13", reason="older torch has no such check"),
        ),
        (four_together, [1, 3], [1, 2]),
        (no_negative, [1, 2], [-1, 2]),
    ],
)
def test_N23_a_check_of_a_number_that_does_not_hold_is_an_error(
    program: Callable[..., Any], good: list[int], bad: list[int], mode: str, device: str
) -> None:
    """The trace takes each check for true, and the engine has nothing that stops."""
    run = torch.compile(program, backend="air", options={"mode": mode}, fullgraph=True)
    for _ in range(2):
        same(run(torch.tensor(good, device=device)), program(torch.tensor(good, device=device)))
        with pytest.raises(RuntimeError):
            run(torch.tensor(bad, device=device))
