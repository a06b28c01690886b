"""Layout of a tensor: shape, order, pieces, padding."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel, plain

Ints = int | tuple[int, ...]


def _tuple(value: Ints) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else value


plain({"Identity": lambda x: x, "StopGradient": lambda x: x, "TransData": lambda x: x}, views=("x",))
plain({"TensorMove": lambda x: x.clone(), "Copy": lambda x: x.clone()})


@kernel("Shape")
def shape(op: Operator) -> Run:
    """The sizes, as a rank-1 tensor."""
    dtype = op.dtype("dtype")
    return lambda x: torch.tensor(x.shape, dtype=dtype)


@kernel("Size")
def size(op: Operator) -> Run:
    """The number of elements."""
    dtype = op.dtype("dtype")
    return lambda x: torch.tensor(x.numel(), dtype=dtype)


@kernel("Rank")
def rank(op: Operator) -> Run:
    """The number of axes."""
    return lambda x: torch.tensor(x.dim(), dtype=torch.int32)


@kernel("Reshape", host=("shape",), views=("x",))
def reshape(op: Operator) -> Run:
    """The same elements in another shape; -1 is what remains."""
    return lambda x, shape: x.reshape(shape)


@kernel("Flatten", views=("x",))
def flatten(op: Operator) -> Run:
    """A matrix, split at `axis`."""
    axis = int(op.attr("axis"))

    def run(x: Tensor) -> Tensor:
        rows = 1
        for dim in x.shape[: axis % (x.dim() + 1)]:
            rows *= dim
        return x.reshape(rows, -1)

    return run


@kernel("Transpose", host=("perm",), views=("x",))
def transpose(op: Operator) -> Run:
    """Axes in another order."""
    return lambda x, perm: x.permute(perm)


@kernel("Squeeze", views=("x",))
def squeeze(op: Operator) -> Run:
    """Drops axes of size one: those named, or all."""
    axes = tuple(op.ints("axis"))
    return (lambda x: x.squeeze(axes)) if axes else torch.squeeze


@kernel("Unsqueeze", views=("x",))
def unsqueeze(op: Operator) -> Run:
    """Puts in axes of size one, at these places of the result."""
    axes = op.ints("axes")
    if len(axes) == 1:
        (axis,) = axes
        return lambda x: x.unsqueeze(axis)

    def run(x: Tensor) -> Tensor:
        rank = x.dim() + len(axes)
        for axis in sorted(a % rank for a in axes):
            x = x.unsqueeze(axis)
        return x

    return run


@kernel("ExpandDims", host=("axis",), views=("x",))
def expand_dims(op: Operator) -> Run:
    """Puts in one axis of size one."""
    return lambda x, axis: x.unsqueeze(_tuple(axis)[0])


@kernel("BroadcastTo", "Expand", host=("shape",), views=("x",))
def broadcast_to(op: Operator) -> Run:
    """Repeats axes of size one; -1 keeps an axis."""
    return lambda x, shape: x.expand(shape)


@kernel("Tile", host=("multiples",))
def tile(op: Operator) -> Run:
    """Repeats the whole along each axis."""
    return lambda x, multiples: x.repeat(multiples)


@kernel("ConcatV2", host=("concat_dim",))
def concat(op: Operator) -> Run:
    """Joins along one axis."""
    return lambda x, concat_dim: torch.cat(x, concat_dim)


@kernel("ConcatD")
def concat_d(op: Operator) -> Run:
    """Joins along the axis of the attribute."""
    axis = int(op.attr("concat_dim"))
    return lambda x: torch.cat(x, axis)


@kernel("Pack")
def pack(op: Operator) -> Run:
    """Joins along a new axis."""
    axis = int(op.attr("axis"))
    return lambda x: torch.stack(x, axis)


@kernel("Unpack", views=("x",))
def unpack(op: Operator) -> Run:
    """Slices along an axis, which disappears."""
    axis = int(op.attr("axis"))
    return lambda x: torch.unbind(x, axis)


@kernel("SplitV", host=("size_splits", "split_dim"), views=("x",))
def split_v(op: Operator) -> Run:
    """Pieces of these sizes; one may be -1, the rest."""

    def run(x: Tensor, sizes: Ints, dim: Ints) -> tuple[Tensor, ...]:
        axis, pieces = _tuple(dim)[0], list(_tuple(sizes))
        if -1 in pieces:
            pieces[pieces.index(-1)] = x.shape[axis] - sum(pieces) - 1
        return torch.split(x, pieces, axis)

    return run


@kernel("Split", host=("split_dim",), views=("x",))
def split(op: Operator) -> Run:
    """Equal pieces."""
    count = int(op.attr("num_split"))
    return lambda split_dim, x: torch.tensor_split(x, count, split_dim)


@kernel("Slice", host=("offsets", "size"), views=("x",))
def slice_(op: Operator) -> Run:
    """A box: where it starts and how large it is (-1: to the end)."""

    def run(x: Tensor, offsets: Ints, sizes: Ints) -> Tensor:
        for dim, (start, length) in enumerate(zip(_tuple(offsets), _tuple(sizes), strict=True)):
            x = x.narrow(dim, start, x.shape[dim] - start if length == -1 else length)
        return x

    return run


def _index_of(op: Operator, begin: Ints, end: Ints, axes: Ints | None, strides: Ints | None) -> _Box:
    begins, ends = _tuple(begin), _tuple(end)
    steps = _tuple(strides) if strides is not None else (1,) * len(begins)
    dims = _tuple(axes) if axes is not None else tuple(range(len(begins)))
    return list(zip(dims, begins, ends, steps, strict=True))


_Box = list[tuple[int, int, int, int]]


@kernel("StridedSliceV2", host=("begin", "end", "axes", "strides"), views=("x",))
def strided_slice(op: Operator) -> Run:
    """Python slicing along the axes; bits of the masks leave a bound open or drop an axis."""
    open_begin, open_end = int(op.attr("begin_mask")), int(op.attr("end_mask"))
    shrink = int(op.attr("shrink_axis_mask"))
    if op.attr("ellipsis_mask") or op.attr("new_axis_mask"):
        raise op.refuse("ellipsis_mask and new_axis_mask are not supported")

    def run(x: Tensor, begin: Ints, end: Ints, axes: Ints | None, strides: Ints | None) -> Tensor:
        dropped = []
        for bit, (dim, first, last, step) in enumerate(_index_of(op, begin, end, axes, strides)):
            axis = dim % x.dim()
            if shrink >> bit & 1:
                x = x.narrow(axis, first % x.shape[axis], 1)
                dropped.append(axis)
                continue
            start = None if open_begin >> bit & 1 else first
            stop = None if open_end >> bit & 1 else last
            x = _stepped(x, axis, slice(start, stop, step))
        return x.squeeze(tuple(dropped)) if dropped else x

    return run


def _stepped(x: Tensor, axis: int, piece: slice) -> Tensor:
    start, stop, step = piece.indices(x.shape[axis])
    if step > 0:
        result: Tensor = torch.ops.aten.slice.Tensor(x, axis, start, max(stop, start), step)
        return result
    return x.index_select(axis, torch.arange(start, stop, step))


@kernel("StridedSliceAssign", host=("begin", "end", "strides"), writes={"var": 0})
def strided_slice_assign(op: Operator) -> Run:
    """Writes a value into a Python slice of the leading axes, in place."""
    open_begin, open_end = int(op.attr("begin_mask")), int(op.attr("end_mask"))

    def run(var: Tensor, begin: Ints, end: Ints, strides: Ints, value: Tensor) -> Tensor:
        target = var
        for bit, (dim, first, last, step) in enumerate(_index_of(op, begin, end, None, strides)):
            start = None if open_begin >> bit & 1 else first
            stop = None if open_end >> bit & 1 else last
            target = _stepped(target, dim, slice(start, stop, step))
        target.copy_(value)
        return var

    return run


@kernel("AsStrided", host=("size", "stride", "storage_offset"))
def as_strided(op: Operator) -> Run:
    """Elements of the dense input by stride; overlapping is allowed."""

    def run(x: Tensor, size: Ints, stride: Ints, offset: Ints) -> Tensor:
        return _region(x.contiguous(), size, stride, offset).clone()

    return run


def _region(dense: Tensor, size: Ints, stride: Ints, offset: Ints) -> Tensor:
    """Elements by stride, counted from the first one of the tensor, wherever that lies in its storage."""
    return dense.as_strided(_tuple(size), _tuple(stride), dense.storage_offset() + _tuple(offset)[0])


@kernel(
    "ViewCopy",
    host=("dst_size", "dst_stride", "dst_storage_offset", "src_size", "src_stride", "src_storage_offset"),
    writes={"dst": 0},
)
def view_copy(op: Operator) -> Run:
    """Copies one strided view into another, in place."""

    def run(
        dst: Tensor,
        size: Ints,
        stride: Ints,
        offset: Ints,
        src: Tensor,
        ssize: Ints,
        sstride: Ints,
        soffset: Ints,
    ) -> Tensor:
        if not dst.is_contiguous():
            raise op.refuse("the written tensor must be contiguous")
        source = _region(src.contiguous(), ssize, sstride, soffset)
        _region(dst, size, stride, offset).copy_(source)
        return dst

    return run


def _torch_padding(paddings: Ints, contiguous: bool) -> list[int]:
    """Pairs per axis, first axis first, as the last-axis-first list of torch."""
    flat = _tuple(paddings)
    half = len(flat) // 2
    pairs = [(flat[2 * i], flat[2 * i + 1]) if contiguous else (flat[i], flat[half + i]) for i in range(half)]
    return [amount for pair in reversed(pairs) for amount in pair]


@kernel("PadV3", host=("paddings",))
def pad_v3(op: Operator) -> Run:
    """Pads each axis with a value, a mirror image, the border or the other end."""
    contiguous = bool(op.attr("paddings_contiguous"))
    name = op.attr("mode")
    mode = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "circular": "circular"}.get(
        name.decode() if isinstance(name, bytes) else name
    )
    if mode is None:
        raise op.refuse(f"mode {name!r} is unknown")

    def run(x: Tensor, paddings: Ints, value: Tensor | None) -> Tensor:
        pads = _torch_padding(paddings, contiguous)
        if mode == "constant":
            fill = 0 if value is None else value.item()
            if x.is_complex():
                real, imaginary = complex(fill).real, complex(fill).imag
                return torch.complex(F.pad(x.real, pads, value=real), F.pad(x.imag, pads, value=imaginary))
            return F.pad(x, pads, "constant", fill)
        outer = _untouched_axes(pads, x.dim())
        return _pad_inner(x, pads[: 2 * (x.dim() - outer)], mode)

    return run


def _untouched_axes(pads: list[int], rank: int) -> int:
    outer = 0
    while outer < rank and pads[2 * (rank - outer) - 2] == 0 and pads[2 * (rank - outer) - 1] == 0:
        outer += 1
    return outer


def _pad_inner(x: Tensor, pads: list[int], mode: str) -> Tensor:
    """Torch pads the last k axes of a tensor of rank k + 2: the leading axes are the batch, maybe empty."""
    axes = len(pads) // 2
    if not axes:
        return x.clone()
    lead, inner = x.shape[: x.dim() - axes], x.shape[x.dim() - axes :]
    padded = F.pad(x.reshape(math.prod(lead), 1, *inner), pads, mode)
    return padded.reshape(*lead, *padded.shape[2:])


@kernel("MirrorPad", host=("paddings",))
def mirror_pad(op: Operator) -> Run:
    """Pads with a mirror image without (REFLECT) or with (SYMMETRIC) the border."""
    mode = op.attr("mode")
    if (mode.decode() if isinstance(mode, bytes) else mode) != "REFLECT":
        raise op.refuse("only mode REFLECT is supported")

    def run(x: Tensor, paddings: tuple[int, ...]) -> Tensor:
        pads = _torch_padding(paddings, True)
        return _pad_inner(x, pads[: 2 * (x.dim() - _untouched_axes(pads, x.dim()))], "reflect")

    return run


@kernel("PadV3Grad", host=("paddings",))
def pad_v3_grad(op: Operator) -> Run:
    """Adds every padded element's gradient to the element it was copied from."""
    contiguous = bool(op.attr("paddings_contiguous"))
    name = op.attr("mode")
    edge = (name.decode() if isinstance(name, bytes) else name) == "edge"

    def run(x: Tensor, paddings: tuple[int, ...]) -> Tensor:
        pads = _torch_padding(paddings, contiguous)
        for k in range(len(pads) // 2):
            before, after = pads[2 * k], pads[2 * k + 1]
            if before or after:
                x = _fold_back(x, x.dim() - 1 - k, before, after, edge)
        return x if any(pads) else x.clone()

    return run


def _fold_back(x: Tensor, axis: int, before: int, after: int, edge: bool) -> Tensor:
    length = x.shape[axis] - before - after
    places = torch.arange(-before, length + after)
    if edge:
        places = places.clamp(0, length - 1)
    else:
        places = places.abs()
        places = torch.where(places >= length, 2 * (length - 1) - places, places)
    shape = list(x.shape)
    shape[axis] = length
    return x.new_zeros(shape).index_add_(axis, places, x)


@kernel("ReverseV2", host=("axis",))
def reverse(op: Operator) -> Run:
    """Runs the axes backwards."""
    return lambda x, axis: torch.flip(x, _tuple(axis))


@kernel("Roll")
def roll(op: Operator) -> Run:
    """Moves elements round an axis."""
    shifts, dims = op.ints("shifts"), op.ints("dims")
    return lambda x: torch.roll(x, shifts, dims)


@kernel("Tril")
def tril(op: Operator) -> Run:
    """Zero above the diagonal."""
    diagonal = int(op.attr("diagonal"))
    return lambda x: torch.tril(x, diagonal)


@kernel("Triu")
def triu(op: Operator) -> Run:
    """Zero below the diagonal."""
    diagonal = int(op.attr("diagonal"))
    return lambda x: torch.triu(x, diagonal)


@kernel("RepeatInterleave")
def repeat_interleave(op: Operator) -> Run:
    """Repeats each element along an axis; axis 1000 flattens first."""
    axis = int(op.attr("axis"))

    def run(x: Tensor, repeats: Tensor) -> Tensor:
        return torch.repeat_interleave(x, repeats.reshape(-1), None if axis == 1000 else axis)

    return run
