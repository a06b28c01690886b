"""Gradients of pools, bags, distances and bilinear forms are in the graph, and are those of torch's kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F  # noqa: N812

from air_geir import compile_graph
from air_geir.lowering._layer_gradients import _bags
from air_geir.proof import check_call

Step = Callable[..., Tensor]
VOLUME = (2, 3, 6, 5, 7)


def volume() -> Sequence[Tensor]:
    return (torch.randn(VOLUME),)


def points() -> Sequence[Tensor]:
    first = torch.randn(2, 4, 3)
    return first, torch.cat([torch.randn(2, 2, 3), first[:, :1]], 1)


def bags() -> Sequence[Tensor]:
    return torch.randn(6, 3), torch.tensor([1, 4, 1, 0, 5, 5, 1]), torch.tensor([0, 2, 2, 5]), torch.randn(7)


def bag(**options: Any) -> tuple[Step, Callable[[], Sequence[Tensor]]]:
    return lambda table, indices, offsets, weights: F.embedding_bag(indices, table, offsets, **options), bags


STEPS: dict[str, tuple[Step, Callable[[], Sequence[Tensor]]]] = {
    "max_pool3d": (lambda x: F.max_pool3d(x, 3, 2, 1), volume),
    "max_pool3d dilated": (lambda x: F.max_pool3d(x, 2, 2, dilation=2, ceil_mode=True), volume),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 3, 2, 1), volume),
    "avg_pool3d ceil": (lambda x: F.avg_pool3d(x, 2, 2, 1, ceil_mode=True), volume),
    "avg_pool3d of what is there": (
        lambda x: F.avg_pool3d(x, (2, 3, 2), ceil_mode=True, count_include_pad=False), volume,
    ),
    "avg_pool3d divided": (lambda x: F.avg_pool3d(x, 2, divisor_override=3), volume),
    "avg_pool3d of one": (lambda x: F.avg_pool3d(x[0], 2), volume),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, (4, 2, 7)), volume),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x[0], (4, 2)), volume),
    **{
        f"adaptive_max_pool2d {size}": (lambda x, size=size: F.adaptive_max_pool2d(x[0], size), volume)
        for size in (1, (4, 3), (5, 3), (None, 2), 9)
    },
    "adaptive_max_pool3d": (lambda x: F.adaptive_max_pool3d(x, (4, 2, 7)), volume),
    "replication_pad3d": (lambda x: F.pad(x, (1, 2, 0, 3, 2, 1), "replicate"), volume),
    "replication_pad3d that cuts": (lambda x: F.pad(x, (-1, 2, 0, 3, 2, -1), "replicate"), volume),
    "lp_pool3d": (lambda x: F.lp_pool3d(x.abs(), 2.0, 2), volume),
    **{f"cdist {p}": (lambda x, y, p=p: torch.cdist(x, y, p), points) for p in (0.0, 1.0, 1.5, 2.0, 3.0, float("inf"))},
    **{
        f"cdist {p} of one and of many": (lambda x, y, p=p: torch.cdist(x[0], y, p), points)
        for p in (0.0, 1.0, 2.0)
    },
    "cdist of one and of none": (lambda x, y: torch.cdist(x[0], y[:0]), points),
    "cdist of none and of one": (lambda x, y: torch.cdist(x[:0], y[1]), points),
    **{
        f"pdist {p}": (lambda x, y, p=p: torch.pdist(y[1], p), points)
        for p in (0.0, 1.0, 1.5, 2.0, 3.0, float("inf"))
    },
    "bilinear": (
        F.bilinear, lambda: (torch.randn(2, 4, 3), torch.randn(2, 4, 5), torch.randn(6, 3, 5), torch.randn(6)),
    ),
    **{f"bag {mode}": bag(mode=mode) for mode in ("sum", "mean", "max")},
    **{f"bag {mode} without one row": bag(mode=mode, padding_idx=1) for mode in ("sum", "mean", "max")},
    "bag with weights": (
        lambda t, i, o, w: F.embedding_bag(i, t, o, mode="sum", per_sample_weights=w, padding_idx=1), bags,
    ),
    "bag with its end": (
        lambda t, i, o, w: F.embedding_bag(
            i, t, torch.cat([o, torch.tensor([7])]), mode="mean", include_last_offset=True
        ),
        bags,
    ),
    "rrelu": (lambda x: F.rrelu(x), volume),
}  # fmt: skip


def compiled(function: Step) -> Step:
    """One graph each way: what has no translation is an error."""
    torch._dynamo.reset()
    return torch.compile(function, backend=aot_autograd(fw_compiler=compile_graph), fullgraph=True)


def stepped(function: Step, given: Sequence[Tensor]) -> list[Tensor | None]:
    leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in given]
    result = function(*leaves)
    (result * torch.arange(result.numel()).cos().reshape(result.shape)).sum().backward()
    return [result.detach(), *(x.grad for x in leaves)]


@pytest.mark.filterwarnings("ignore:Your compiler for AOTAutograd")
@pytest.mark.parametrize("name", STEPS)
def test_N03_a_step_is_one_graph_each_way_and_gives_what_eager_gives(name: str) -> None:
    torch.manual_seed(0)
    function, made = STEPS[name]
    given = made()
    torch.testing.assert_close(stepped(compiled(function), given), stepped(function, given))


@pytest.mark.filterwarnings("ignore:Your compiler for AOTAutograd")
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_N03_bags_of_bfloat16_train(mode: str) -> None:
    """torch traces their bags for as many indices as there are; its kernel gives none for sums."""
    torch.manual_seed(0)
    table, indices, offsets = (
        torch.randn(6, 3).bfloat16(),
        torch.tensor([1, 4, 1, 0, 5]),
        torch.tensor([0, 2, 2]),
    )

    def bagged(table: Tensor, indices: Tensor, offsets: Tensor) -> Tensor:
        return F.embedding_bag(indices, table, offsets, mode=mode)

    given = (table, indices, offsets)
    torch.testing.assert_close(stepped(compiled(bagged), given), stepped(bagged, given))


AVERAGES = [name for name in STEPS if "avg_pool" in name]


@pytest.mark.filterwarnings("ignore:Your compiler for AOTAutograd")
@pytest.mark.parametrize("name", AVERAGES)
def test_N03_averages_of_sizes_that_vary_train_in_one_graph_each_way(name: str) -> None:
    torch.manual_seed(0)
    function, made = STEPS[name]
    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=compile_graph)
    step = torch.compile(function, backend=backend, fullgraph=True, dynamic=True)
    for given in (made(), [made()[0][..., :5, 1:]]):
        torch.testing.assert_close(stepped(step, given), stepped(function, given))


@pytest.mark.parametrize("axes", [2, 3])
def test_N03_maxima_of_windows_of_several_sizes_say_where_they_were(axes: int) -> None:
    """Of equal ones the first, and the last NaN where there are some in the window."""
    torch.manual_seed(0)
    x = (torch.randn(2, 3, *(7, 5, 6)[:axes]) * 2).round()
    pool = {2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}[axes]
    for wanted in ([4, 3, 4], [2, 5, 5], [8, 3, 1]):
        check_call(lambda x: pool(x, wanted[:axes], return_indices=True), (x,), {})  # noqa: B023
    x[torch.rand(x.shape) < 0.3] = torch.nan
    check_call(lambda x: pool(x, [4, 3, 4][:axes], return_indices=True), (x,), {})


@pytest.mark.filterwarnings("ignore:Your compiler for AOTAutograd")
@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"scale_grad_by_freq": True}], ids=str)
def test_N03_a_table_with_a_number_of_rows_that_varies_trains(options: dict[str, Any]) -> None:
    """The operator takes the number of rows as an attribute."""

    def looked_up(table: Tensor, indices: Tensor) -> Tensor:
        return F.embedding(indices, table, **options)

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=compile_graph)
    step = torch.compile(looked_up, backend=backend, fullgraph=True, dynamic=True)
    for rows in (6, 9):
        given = (torch.randn(rows, 3), torch.tensor([1, 2, 3, 3]))
        torch.testing.assert_close(stepped(step, given), stepped(looked_up, given))


@pytest.mark.parametrize("shape", [(3, 7), (3, 7, 9)], ids=str)
def test_N03_the_gradient_of_adaptive_maxima_goes_where_they_were(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    axes = len(shape)
    forward, backward = {
        2: (torch.ops.aten.adaptive_max_pool2d, torch.ops.aten.adaptive_max_pool2d_backward),
        3: (torch.ops.aten.adaptive_max_pool3d, torch.ops.aten.adaptive_max_pool3d_backward),
    }[axes]
    x = torch.randn(2, *shape)
    values, places = forward(x, [2] * axes)
    check_call(backward, (torch.randn(values.shape), x, places), {})


@pytest.mark.filterwarnings("ignore:Your compiler for AOTAutograd")
def test_N03_slopes_are_drawn_for_what_is_negative_and_kept_for_the_gradient() -> None:
    torch.manual_seed(0)
    x = torch.linspace(-2, 2, 2000).requires_grad_()
    y = compiled(lambda x: F.rrelu(x, 0.2, 0.6, training=True))(x)
    y.sum().backward()
    assert x.grad is not None
    negative = x.detach() < 0
    torch.testing.assert_close(y.detach(), x.detach() * x.grad)
    assert (x.grad[~negative] == 1).all()
    drawn = x.grad[negative]
    assert drawn.min() >= 0.2
    assert drawn.max() < 0.6
    assert drawn.mean().item() == pytest.approx(0.4, abs=0.02)
    assert drawn.unique().numel() > 900


def test_N03_finding_the_bag_of_each_index_takes_no_table_of_indices_and_bags() -> None:
    indices, offsets = torch.zeros(300, dtype=torch.int64), torch.arange(0, 300, 3)
    traced = make_fx(_bags, tracing_mode="fake")(indices, offsets)
    sizes = [v.numel() for n in traced.graph.nodes if isinstance(v := n.meta.get("val"), Tensor)]
    assert max(sizes) <= 301
    torch.testing.assert_close(_bags(indices, offsets), torch.arange(300) // 3)
