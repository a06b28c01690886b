"""Reductions, scans, sorting and search."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel

Axes = int | tuple[int, ...]


def _axes(axes: Axes) -> tuple[int, ...]:
    return (axes,) if isinstance(axes, int) else axes


def _over_axes(function: Callable[..., Tensor]) -> Callable[[Operator], Run]:
    """A reduction that takes any number of axes; none reduces nothing."""

    def factory(op: Operator) -> Run:
        keep = bool(op.attr("keep_dims"))

        def run(x: Tensor, axes: Axes) -> Tensor:
            dims = _axes(axes)
            return function(x, dims, keep) if dims else x

        return run

    return factory


def _prod(x: Tensor, dims: tuple[int, ...], keep: bool) -> Tensor:
    for dim in sorted((d % x.dim() for d in dims), reverse=True):
        x = torch.prod(x, dim, keepdim=keep, dtype=x.dtype)
    return x


_REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "ReduceSum": lambda x, dims, keep: torch.sum(x, dims, keepdim=keep, dtype=x.dtype),
    "ReduceMax": torch.amax,
    "ReduceMin": torch.amin,
    "ReduceAll": torch.all,
    "ReduceAny": torch.any,
    "ReduceProd": _prod,
    "ReduceLogSumExp": torch.logsumexp,
    "ReduceMean": torch.mean,
}
for _type, _function in _REDUCTIONS.items():
    kernel(_type, host=("axes",))(_over_axes(_function))


@kernel("ReduceMeanWithCast", host=("axes",))
def mean_with_cast(op: Operator) -> Run:
    """Mean computed and given in another type."""
    keep = bool(op.attr("keep_dims"))
    dtype = op.dtype("dtype")
    return lambda x, axes: torch.mean(x, _axes(axes), keepdim=keep, dtype=dtype)


@kernel("ReduceStdV2")
def std_v2(op: Operator) -> Run:
    """Standard deviation and mean."""
    dims, correction, keep = op.ints("dim"), op.attr("correction"), bool(op.attr("keepdim"))
    return lambda x: torch.std_mean(x, dims or None, correction=correction, keepdim=keep)


@kernel("LpNormV2")
def lp_norm(op: Operator) -> Run:
    """Vector norm of order p."""
    p, axes, keep = op.attr("p"), op.ints("axes"), bool(op.attr("keepdim"))
    if math.isinf(p) or op.attr("epsilon"):
        raise op.refuse(
            f"p = {p}, epsilon = {op.attr('epsilon')}: chips differ in an infinite p, and this adds nothing"
        )
    return lambda x: torch.linalg.vector_norm(x, p, axes or None, keep)


def _arg_with_value(function: Callable[..., tuple[Tensor, Tensor]]) -> Callable[[Operator], Run]:
    def factory(op: Operator) -> Run:
        dim, keep = int(op.attr("dimension")), bool(op.attr("keep_dims"))

        def run(x: Tensor) -> tuple[Tensor, Tensor]:
            values, indices = function(x, dim, keepdim=keep)
            return indices.to(torch.int32), values

        return run

    return factory


kernel("ArgMaxWithValue")(_arg_with_value(torch.max))
kernel("ArgMinWithValue")(_arg_with_value(torch.min))


def _arg(function: Callable[..., Tensor]) -> Callable[[Operator], Run]:
    def factory(op: Operator) -> Run:
        dtype = op.dtype("dtype")
        return lambda x, dimension: function(x, dimension).to(dtype)

    return factory


kernel("ArgMaxV2", host=("dimension",))(_arg(torch.argmax))
kernel("ArgMin", host=("dimension",))(_arg(torch.argmin))


def _scan(function: Callable[..., Tensor], neutral: int) -> Callable[[Operator], Run]:
    """A running sum or product; `exclusive` leaves the element itself out, `reverse` runs from the end."""

    def factory(op: Operator) -> Run:
        exclusive, reverse = bool(op.attr("exclusive")), bool(op.attr("reverse"))

        def run(x: Tensor, axis: int) -> Tensor:
            if not (exclusive or reverse):
                return function(x, axis, dtype=x.dtype)
            y = x.flip(axis) if reverse else x
            if exclusive:
                head = torch.full_like(y.narrow(axis, 0, 1), neutral)
                y = torch.cat([head, y.narrow(axis, 0, y.shape[axis] - 1)], axis)
            y = function(y, axis, dtype=x.dtype)
            return y.flip(axis) if reverse else y

        return run

    return factory


kernel("Cumsum", host=("axis",))(_scan(torch.cumsum, 0))
kernel("Cumprod", host=("axis",))(_scan(torch.cumprod, 1))


@kernel("Cummax")
def cummax(op: Operator) -> Run:
    """Running maximum and where it was reached."""
    return _running(torch.cummax, int(op.attr("dim")))


@kernel("Cummin")
def cummin(op: Operator) -> Run:
    """Running minimum and where it was reached."""
    return _running(torch.cummin, int(op.attr("axis")))


def _running(scan: Callable[..., tuple[Tensor, Tensor]], axis: int) -> Run:
    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        values, places = scan(x, axis)
        return values, places.to(torch.int32)

    return run


@kernel("CumulativeLogsumexp", host=("axis",))
def cumulative_logsumexp(op: Operator) -> Run:
    """Running log of the sum of exponentials."""
    return lambda x, axis: torch.logcumsumexp(x, axis)


@kernel("Sort")
def sort(op: Operator) -> Run:
    """Sorted values and, as int32, where they came from."""
    axis, descending, stable = int(op.attr("axis")), bool(op.attr("descending")), bool(op.attr("stable"))

    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = torch.sort(x, dim=axis, descending=descending, stable=stable)
        return values, indices.to(torch.int32)

    return run


@kernel("TopKV2", host=("k",))
def topk(op: Operator) -> Run:
    """The k largest (or smallest) and, as int32, where they came from."""
    dim, largest, ordered = int(op.attr("dim")), bool(op.attr("largest")), bool(op.attr("sorted"))

    def run(x: Tensor, k: int | tuple[int, ...]) -> tuple[Tensor, Tensor]:
        count = k if isinstance(k, int) else k[0]
        values, indices = torch.topk(x, count, dim, largest, ordered)
        return values, indices.to(torch.int32)

    return run


@kernel("SearchSorted")
def search_sorted(op: Operator) -> Run:
    """Where each value would be inserted."""
    dtype, right = op.dtype("dtype"), bool(op.attr("right"))

    def run(sequence: Tensor, values: Tensor, sorter: Tensor | None) -> Tensor:
        return torch.searchsorted(sequence, values, right=right, sorter=sorter).to(dtype)

    return run


@kernel("Bucketize")
def bucketize(op: Operator) -> Run:
    """Which bucket each value falls into."""
    boundaries, dtype, right = list(op.attr("boundaries")), op.dtype("dtype"), bool(op.attr("right"))
    return lambda x: torch.bucketize(x, torch.tensor(boundaries, dtype=x.dtype), right=right).to(dtype)


@kernel("Bincount", host=("size",))
def bincount(op: Operator) -> Run:
    """How often each number below size occurs, weighted when weights are given."""

    def run(array: Tensor, size: int, weights: Tensor) -> Tensor:
        weighted = weights if weights.numel() else None
        bins = torch.bincount(array.reshape(-1), weighted, minlength=size)[:size]
        return bins.to(weights.dtype)

    return run


@kernel("Histogram")
def histogram(op: Operator) -> Run:
    """How many elements lie in each of `bins` equal parts of [min, max]; with both 0, of the data's own range."""
    bins, low, high = int(op.attr("bins")), op.attr("min"), op.attr("max")

    def run(x: Tensor) -> Tensor:
        counts = torch.histc(x if x.is_floating_point() else x.double(), bins, low, high)
        return counts.to(x.dtype)

    return run
