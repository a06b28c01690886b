"""Reading and writing elements by index, by mask, by slice."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from air_geir.building import Context, Number, Size, Value
from air_geir.converters._putting import put_at
from air_geir.converters._registry import converts
from air_geir.converters._rows import register_direct
from air_geir.converters._sample import Sample, boolean, f32, f64, i64
from air_geir.converters.views import clipped, flat_diagonal, slice_axis
from air_geir.ir import Dim, maximum, minimum
from air_graph import Region, repeated_element

aten = torch.ops.aten

Placing = Callable[[Context, Size, Value], Value]
"""What becomes of an index, given the size of its axis."""

_ROWS = i64(4, low=-3, high=3)


@converts(
    aten.embedding.default,
    samples=[Sample(f32(5, 3), i64(2, 4, low=0, high=5)), Sample(f32(5, 3), i64(2, low=0, high=5), 1)],
)
def embedding(
    ctx: Context, weight: Value, indices: Value, padding_idx: Size = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:  # fmt: skip
    """embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor"""  # noqa: E501
    return ctx.emit("GatherV2", weight, indices, [0])


@converts(aten.index_select.default, samples=[Sample(f32(3, 4), 1, i64(5, low=0, high=4))])
def index_select(ctx: Context, self: Value, dim: int, index: Value) -> Value:
    """index_select(Tensor self, int dim, Tensor index) -> Tensor"""
    if not self.rank:  # one element, and an index that the engine compares with its size
        row, place = ctx.reshape(self, (1,)), ctx.reshape(index, (1,))
        return ctx.reshape(ctx.emit("GatherV2", row, place, [0], shape=(1,)), ())
    return ctx.emit("GatherV2", self, index if index.rank else ctx.reshape(index, (1,)), [self.axis(dim)])


@converts(aten.gather.default, samples=[Sample(f32(3, 4), 1, i64(3, 2, low=0, high=4))])
def gather(ctx: Context, self: Value, dim: int, index: Value, *, sparse_grad: bool = False) -> Value:
    """gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor"""
    if not self.rank:
        row = ctx.reshape(self, (1,))
        if index.rank:
            return ctx.emit("GatherElements", row, index, dim=0)
        return ctx.reshape(ctx.emit("GatherElements", row, ctx.reshape(index, (1,)), dim=0, shape=(1,)), ())
    return ctx.emit("GatherElements", self, index, dim=self.axis(dim))


def _spelled_out(
    ctx: Context, self: Value, indices: Sequence[Value | None], counted: Placing
) -> tuple[list[int], list[Value]]:
    """One index per axis: a mask of k axes stands for k index tensors, the places where it is true."""
    flags: list[int] = []
    found: list[Value] = []
    for index in indices:
        if index is None:
            flags.append(0)
        elif index.dtype in (torch.bool, torch.uint8):
            places = _places(ctx, index)
            flags.extend([1] * len(places))
            found.extend(places)
        else:
            found.append(counted(ctx, self.dims[len(flags)], ctx.cast(index, torch.int64)))
            flags.append(1)
    return flags, found


def _places(ctx: Context, mask: Value) -> list[Value]:
    coordinates = ctx.emit("NonZero", mask, dtype=torch.int64, shape=None, attrs={"dtype": torch.int64})
    columns = ctx.emit_many(
        "Unpack", coordinates, num=mask.rank, axis=1, num_outputs=mask.rank, dtype=torch.int64
    )
    return list(columns)


def as_given(ctx: Context, size: Size, index: Value) -> Value:
    """Places that are known to lie on the axis."""
    return index


def _from_front(ctx: Context, size: Size, index: Value) -> Value:
    """Negative places count from the end of the axis, once."""
    counted = _never_negative(ctx, size, ctx.emit("Add", index, ctx.size(size), shape=index.shape))
    return ctx.emit("SelectV2", _is_negative(ctx, index), counted, index, shape=index.shape)


def _never_negative(ctx: Context, size: Size, index: Value) -> Value:
    """A negative place becomes the one behind the axis: an engine would count it from the end, and refuses this one."""
    return ctx.emit("SelectV2", _is_negative(ctx, index), ctx.size(size), index, shape=index.shape)


def _is_negative(ctx: Context, index: Value) -> Value:
    return ctx.emit("Less", index, ctx.const(0, torch.int64), shape=index.shape)


@converts(aten._unsafe_index.Tensor, samples=[Sample(f32(3, 5), [None, i64(2, 2, low=0, high=5)])])
@converts(
    aten.index.Tensor,
    samples=[
        Sample(f32(3, 5), [_ROWS]),
        Sample(f32(3, 5), [None, i64(2, 2, low=-5, high=5)]),
        Sample(f32(3, 4, 5), [i64(2, low=0, high=3), None, i64(2, low=0, high=5)]),
        Sample(f32(3, 5), [torch.tensor([True, False, True])]),
        Sample(f32(3, 5), [torch.tensor([[True] * 5, [False] * 5, [False, True] * 2 + [True]])]),
    ],
)
def index(ctx: Context, self: Value, indices: Sequence[Value | None]) -> Value:
    """index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"""
    is_single = sum(index is not None for index in indices) == 1
    flags, places = _spelled_out(ctx, self, indices, as_given if is_single else _from_front)
    if len(places) == 1:
        return ctx.emit("GatherV2", self, places[0], [flags.index(1)], negative_index_support=True)
    return ctx.emit("IndexByTensor", self, places, indices_mask=flags)


def put(
    ctx: Context, self: Value, indices: Sequence[Value | None], values: Value, accumulate: bool,
    counted: Placing = _from_front,
) -> Value:  # fmt: skip
    """Assignment by index into a copy; a pass drops the copy when nobody else needs the old value."""
    flags, places = _spelled_out(ctx, self, indices, counted)
    if not places:
        ctx.refuse("an assignment to every element by index has no operator here", "use copy_ or torch.where")
    target = ctx.emit("TensorMove", self, shape=self.shape)
    return put_at(ctx, target, flags, places, values, accumulate)


_PUT_SAMPLES = [
    Sample(f32(5, 3), [i64(2, low=0, high=2)], f32(2, 3), True),
    Sample(f32(3, 5), [None, torch.tensor([1, -1])], f32(3, 2)),
    Sample(f32(3, 5), [torch.tensor([True, False, True])], f32(2, 5)),
    Sample(f32(3, 5), [torch.tensor([True, False, True])], f32()),
    Sample(f32(3), [torch.tensor([True, False, True])], f32()),
    Sample(f32(3, 5), [torch.tensor(2)], f32(5)),
    Sample(f32(3, 5), [None, torch.tensor([True, False, True, False, True])], f32(3, 1)),
    Sample(f32(3, 4, 5), [torch.tensor([[True, False] * 2] * 3), torch.tensor([1])], f32()),
    Sample(f32(3, 4, 5), [torch.tensor([1, 0]), None, torch.tensor([[2], [4]])], f32(2, 4)),
    Sample(f32(3, 4, 5), [None, torch.tensor([[1], [0]]), torch.tensor([2, 4, 0])], f32(2, 1)),
    Sample(f32(2, 3, 4, 5), [None, torch.tensor([True, False, True]), None, torch.tensor(3)], f32(4)),
]


def _refuse_other_type(ctx: Context, self: Value, values: Value) -> None:
    if values.dtype != self.dtype:
        ctx.refuse(f"eager takes no values of {values.dtype} for a tensor of {self.dtype}", "cast the values")


@converts(aten.index_put.default, aten._unsafe_index_put.default, samples=_PUT_SAMPLES)
def index_put(
    ctx: Context, self: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False
) -> Value:
    """index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor"""
    _refuse_other_type(ctx, self, values)
    given = [index for index in indices if index is not None]
    is_number = all(size == 1 for size in values.dims)
    if len(given) == 1 and given[0].dtype == torch.bool and is_number and not accumulate:
        return _masked(ctx, self, indices.index(given[0]), given[0], values)
    return put(ctx, self, indices, values, accumulate)


def _masked(ctx: Context, self: Value, axis: int, mask: Value, number: Value) -> Value:
    """One number wherever the mask is true: nobody has to count how often that is."""
    behind = self.rank - axis - mask.rank
    where = ctx.reshape(mask, [*mask.dims, *[1] * behind])
    return ctx.emit("SelectV2", where, ctx.reshape(number, ()), self, shape=self.shape)


@converts(aten.index_copy.default, samples=[Sample(f32(3, 5), 1, torch.tensor([4, 0]), f32(3, 2))])
def index_copy(ctx: Context, self: Value, dim: int, index: Value, source: Value) -> Value:
    """index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"""
    _refuse_other_type(ctx, self, source)
    if not self.rank:
        return ctx.reshape(source, ())
    axis = self.axis(dim)
    places = ctx.reshape(index, (*index.dims, 1)[:1]) if index.rank == 0 else index
    return put(ctx, self, [*[None] * axis, places], source, False, _never_negative)


@converts(aten.index_add.default, samples=[Sample(f32(3, 5), 1, torch.tensor([4, 0, 4]), f32(3, 3), alpha=2)])
def index_add(
    ctx: Context, self: Value, dim: int, index: Value, source: Value, *, alpha: Number = 1
) -> Value:
    """index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"""
    one = self.rank == 0
    target = ctx.emit("TensorMove", ctx.reshape(self, (1,)) if one else self)
    places = ctx.reshape(index, (1,)) if index.rank == 0 else index
    values = ctx.reshape(source, (1,)) if one else source
    added = ctx.emit(
        "InplaceIndexAdd", target, places, values, ctx.converted(alpha, self.dtype), axis=self.axis(dim),
        shape=target.shape,
    )  # fmt: skip
    return ctx.reshape(added, ()) if one else added


@converts(aten.index_fill.int_Scalar, samples=[Sample(f32(3, 5), 1, torch.tensor([4, 0]), 2.5)])
def index_fill(ctx: Context, self: Value, dim: int, index: Value, value: Number) -> Value:
    """index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    if not self.rank:
        return ctx.converted(value, self.dtype)
    places = ctx.reshape(index, (1,)) if index.rank == 0 else index
    return put(ctx, self, [*[None] * self.axis(dim), places], ctx.converted(value, self.dtype), False)


_INDEX = i64(3, 2, low=0, high=4)


def _scattered(ctx: Context, self: Value, dim: int, index: Value, src: Value, reduction: str) -> Value:
    one = self.rank == 0
    data, places, updates = (ctx.reshape(v, (1,)) if v.rank == 0 else v for v in (self, index, src))
    if one and index.shape == (0,):
        return ctx.emit("TensorMove", self)
    if updates.dims != places.dims:
        for axis, size in enumerate(places.dims):
            updates = slice_axis(ctx, updates, axis, 0, size, 1) if updates.dims[axis] != size else updates
            updates = Value(updates.port, updates.dtype, (*places.dims[: axis + 1], *src.dims[axis + 1 :]))
    result = ctx.emit(
        "ScatterElements", data, places, updates, axis=data.axis(dim), reduction=reduction, shape=data.dims
    )
    return ctx.reshape(Value(result.port, result.dtype, data.dims), ()) if one else result


@converts(
    aten.scatter.src, samples=[Sample(f32(3, 4), 0, torch.tensor([[0, 1], [2, 0]]), f32(2, 2)),
                               Sample(f32(3, 4), 1, torch.tensor([[0, 1], [2, 0]]), f32(3, 3))]
)  # fmt: skip
def scatter_src(ctx: Context, self: Value, dim: int, index: Value, src: Value) -> Value:
    """scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return _scattered(ctx, self, dim, index, src, "none")


def _filled(ctx: Context, self: Value, index: Value, value: Number) -> Value:
    ctx.refuse_outside(value, self.dtype)
    return ctx.fill(index.dims, value, self.dtype)


@converts(aten.scatter.value, samples=[Sample(f32(3, 4), 1, _INDEX, 2.5)])
def scatter_value(ctx: Context, self: Value, dim: int, index: Value, value: Number) -> Value:
    """scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    return _scattered(ctx, self, dim, index, _filled(ctx, self, index, value), "none")


_HOW = {"add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


@converts(aten.scatter.reduce, samples=[Sample(f32(3, 4), 1, _INDEX, f32(3, 2), reduce="add")])
def scatter_reduce_src(
    ctx: Context, self: Value, dim: int, index: Value, src: Value, *, reduce: str
) -> Value:
    """scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor"""
    return _scattered(ctx, self, dim, index, src, _HOW[reduce])


@converts(aten.scatter.value_reduce, samples=[Sample(f32(3, 4), 1, _INDEX, 2.5, reduce="multiply")])
def scatter_value_reduce(
    ctx: Context, self: Value, dim: int, index: Value, value: Number, *, reduce: str
) -> Value:
    """scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor"""
    return _scattered(ctx, self, dim, index, _filled(ctx, self, index, value), _HOW[reduce])


@converts(aten.scatter_add.default, samples=[Sample(f32(3, 4), 1, _INDEX, f32(3, 2))])
def scatter_add(ctx: Context, self: Value, dim: int, index: Value, src: Value) -> Value:
    """scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor"""
    return _scattered(ctx, self, dim, index, src, "add")


@converts(
    aten.scatter_reduce.two,
    samples=[
        Sample(f32(3, 4), 1, _INDEX, f32(3, 2), "amax"),
        Sample(f32(3, 4), 1, _INDEX, f32(3, 2), "sum", include_self=False),
        Sample(f64(3, 4), 1, _INDEX, f64(3, 2), "mean"),
        Sample(f32(3, 4), 1, _INDEX, f32(3, 2), "prod", include_self=False),
        Sample(boolean(3, 4), 1, _INDEX, boolean(3, 2), "amin", include_self=False),
        Sample(boolean(3, 4), 1, _INDEX, boolean(3, 2), "amax", include_self=False),
    ],
)
def scatter_reduce(
    ctx: Context, self: Value, dim: int, index: Value, src: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor"""  # noqa: E501
    if reduce == "mean":
        return _scatter_mean(ctx, self, dim, index, src, include_self)
    start = self
    if not include_self:
        neutral = _neutral(reduce, self.dtype)
        start = _scattered(ctx, self, dim, index, ctx.fill(index.dims, neutral, self.dtype), "none")
    return _scattered(ctx, start, dim, index, src, _HOW[reduce])


def _neutral(reduce: str, dtype: torch.dtype) -> Number:
    if reduce in ("sum", "prod"):
        return 0 if reduce == "sum" else 1
    if dtype.is_floating_point:
        return float("-inf") if reduce == "amax" else float("inf")
    if dtype == torch.bool:
        return reduce == "amin"
    limits = torch.iinfo(dtype)
    return limits.min if reduce == "amax" else limits.max


def _scatter_mean(ctx: Context, self: Value, dim: int, index: Value, src: Value, include_self: bool) -> Value:
    """The sum over how many fell on each place, counted in the type of the tensor as eager counts them."""
    zeros, ones = ctx.fill(index.dims, 0, self.dtype), ctx.fill(index.dims, 1, self.dtype)
    start = self if include_self else _scattered(ctx, self, dim, index, zeros, "none")
    total = _scattered(ctx, start, dim, index, src, "add")
    counted = ctx.fill(self.dims, 1, self.dtype)
    if not include_self:
        counted = _scattered(ctx, counted, dim, index, zeros, "none")
    count = _scattered(ctx, counted, dim, index, ones, "add")
    none = ctx.emit("Equal", count, ctx.const(0, self.dtype), shape=self.shape)
    divisor = ctx.emit("SelectV2", none, ctx.const(1, self.dtype), count, shape=self.shape)
    quotient = "RealDiv" if self.is_float or self.dtype.is_complex else "FloorDiv"
    return ctx.emit(quotient, total, divisor, shape=self.shape)


def refuse_overlaps(ctx: Context, size: Sequence[Size], stride: Sequence[Size]) -> None:
    """Refuses memory in which two indices name one element: what is written at one of them is read at the other.

    torch copies an expanded value dense, an empty one has no elements, and sizes known only at run time are not looked
    at.
    """
    extents = [one for one in (*size, *stride) if isinstance(one, int)]
    at = len(size)
    if len(extents) == 2 * at and 0 not in extents:
        why = repeated_element(Region(0, tuple(extents[:at]), tuple(extents[at:]), 1))
        if why is not None:
            ctx.refuse(
                f"{why}, so the order of writes matters, and only torch's own kernel has torch's order"
            )


def _refuse_overlaps_of_first(ctx: Context) -> None:
    like = ctx.memory().like
    refuse_overlaps(ctx, like.shape, like.stride())


def _dense(sizes: Sequence[Dim]) -> list[Dim]:
    """The strides of elements that lie one after the other."""
    strides: list[Dim] = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * size)
    return strides[: len(sizes)][::-1]


def _begin(ctx: Context, bound: Any, size: Dim) -> Dim:
    """Where a slice begins, also where only the run tells its bound, which may count from the end."""
    first = clipped(ctx, bound, size, 0)
    if isinstance(first, int) or isinstance(bound, int):
        return first
    is_from_end = minimum(maximum(0 - first, 0), 1)
    return minimum(maximum(first + size * is_from_end, 0), size)


def _written(
    ctx: Context, self: Value, src: Value, sizes: Sequence[Dim], strides: Sequence[Dim], first: Dim
) -> Value:
    """A copy of the tensor with one region of it written; a pass drops the copy when nobody else needs it."""
    target = ctx.emit("TensorMove", self, shape=self.shape)
    if 0 in sizes:
        return target
    extent = ctx.shape(sizes)
    region = (extent, ctx.shape(strides), ctx.size(first))
    source = (ctx.cast(src, self.dtype), extent, ctx.shape(_dense(sizes)), ctx.size(0))
    return ctx.emit("ViewCopy", target, *region, *source, shape=self.shape)


@converts(
    aten.select_scatter.default,
    samples=[
        Sample(f32(3, 4), f32(3), 1, -1),
        Sample(f32(3, 4, 2), f32(4, 2), 0, 1),
        Sample(f32(3), f32(), 0, 2),
    ],
)
def select_scatter(ctx: Context, self: Value, src: Value, dim: int, index: Size) -> Value:
    """select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor"""
    _refuse_overlaps_of_first(ctx)
    axis, at = self.axis(dim), ctx.dim(index)
    if isinstance(at, int):
        strides = _dense(self.dims)
        place = at % self.dims[axis] if at < 0 else at
        rest = [(size, strides[a]) for a, size in enumerate(self.dims) if a != axis]
        sizes, steps = [size for size, _ in rest] or [1], [step for _, step in rest] or [1]
        return _written(ctx, self, src, sizes, steps, place * strides[axis])
    sizes = [1 if a == axis else d for a, d in enumerate(self.dims)]
    return put(
        ctx, self, [*[None] * axis, ctx.reshape(ctx.size(index), (1,))], ctx.reshape(src, sizes), False
    )


@converts(
    aten.slice_scatter.default,
    samples=[
        Sample(f32(5, 3), f32(2, 3), 0, 1, 3),
        Sample(f32(3, 6), f32(3, 2), 1, 1, -1, 2),
        Sample(f32(3, 6), f32(3, 6), 1),
        Sample(f32(3, 6), f32(3, 2), 1, -2),
        Sample(f32(3, 6), f32(3, 2), 1, 0, 2),
        Sample(f32(3, 6, 20), f32(3, 2, 20), 1, 3, 5),
    ],
)
def slice_scatter(
    ctx: Context, self: Value, src: Value, dim: int = 0, start: Any = None, end: Any = None, step: Size = 1
) -> Value:
    """slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor"""  # noqa: E501
    _refuse_overlaps_of_first(ctx)
    axis = self.axis(dim)
    size, count = self.dims[axis], src.dims[axis]
    if count == size:
        return ctx.emit("TensorMove", ctx.cast(src, self.dtype), shape=self.shape)
    first = _begin(ctx, start, size)
    strides = _dense(self.dims)
    steps = [stride * ctx.dim(step) if a == axis else stride for a, stride in enumerate(strides)]
    return _written(ctx, self, src, src.dims, steps, first * strides[axis])


@converts(
    aten.diagonal_scatter.default,
    samples=[
        Sample(f32(3, 4), f32(3)),
        Sample(f32(2, 3, 3), f32(2, 2), 1, 1, 2),
        Sample(f32(4, 3), f32(3), -1),
        Sample(f32(3, 2, 4), f32(2, 3), 0, 2, 0),
    ],
)
def diagonal_scatter(
    ctx: Context, self: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    """diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor"""
    _refuse_overlaps_of_first(ctx)
    flat, order, places = flat_diagonal(ctx, self, offset, dim1, dim2, src.dims[-1])
    written = put(ctx, flat, [*[None] * (self.rank - 2), places], src, False, as_given)
    moved = ctx.reshape(written, [self.dims[axis] for axis in order])
    return ctx.transpose(moved, [order.index(axis) for axis in range(self.rank)])


@converts(
    aten.take.default,
    samples=[Sample(f32(3, 4), i64(2, 2, low=-12, high=12)), Sample(f32(3, 4), i64(low=0, high=12))],
)
def take(ctx: Context, self: Value, index: Value) -> Value:
    """take(Tensor self, Tensor index) -> Tensor"""
    flat = ctx.reshape(self, (math.prod(self.dims),))
    _, places = _spelled_out(ctx, flat, [index], _from_front)
    return ctx.emit("GatherV2", flat, places[0], [0], shape=index.shape)


@converts(
    aten.nonzero.default, samples=[Sample(torch.tensor([[0.0, 1, 2], [3, 0, 0]])), Sample(boolean(3, 4))]
)
def nonzero(ctx: Context, self: Value) -> Value:
    """nonzero(Tensor self) -> Tensor"""
    return ctx.emit("NonZero", self, dtype=torch.int64, attrs={"dtype": torch.int64})


_MASKED_SELECT = {"masked_select.default": ("MaskedSelect(self mask)", [Sample(f32(3, 4), boolean(3, 4))])}
register_direct(_MASKED_SELECT, "indexing")


@converts(
    aten.masked_scatter.default,
    samples=[
        Sample(f32(3, 4), boolean(3, 4), f32(12)),
        Sample(f32(3, 4), boolean(4), f32(12)),
        Sample(f32(4), boolean(3, 4), f32(12)),
    ],
)
def masked_scatter(ctx: Context, self: Value, mask: Value, source: Value) -> Value:
    """masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor"""
    return ctx.emit("MaskedScatter", *(ctx.broadcast(v, ctx.out_shape) for v in (self, mask)), source)
