"""Layout of a tensor: shape, order, pieces, padding."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel, plain

Ints = int | tuple[int, ...]


def as_tuple(value: Ints) -> tuple[int, ...]:
    """Numbers of a port of rank 0 or 1."""
    return (value,) if isinstance(value, int) else value


plain(
    {
        "TensorMove": lambda x: x.clone(),
        "Copy": lambda x: x.clone(),
        "Shape": (lambda x, dtype: torch.tensor(x.shape, dtype=dtype), "dtype=type(dtype)"),
        "Size": (lambda x, dtype: torch.tensor(x.numel(), dtype=dtype), "dtype=type(dtype)"),
        "Rank": lambda x: torch.tensor(x.dim(), dtype=torch.int32),
        "ConcatD": (torch.cat, "dim=concat_dim"),
        "Pack": (torch.stack, "dim=axis"),
        "Roll": (torch.roll, "shifts dims"),
        "Tril": (torch.tril, "diagonal"),
        "Triu": (torch.triu, "diagonal"),
    }
)
plain(
    {
        "Identity": lambda x: x,
        "StopGradient": lambda x: x,
        "TransData": lambda x: x,
        "Unpack": (torch.unbind, "dim=axis"),
        "Flatten": (lambda x, axis: x.reshape(math.prod(x.shape[: axis % (x.dim() + 1)]), -1), "axis"),
    },
    views=("x",),
)
plain(
    {
        "Reshape": lambda x, shape: x.reshape(shape),
        "BroadcastTo": lambda x, shape: x.expand(shape),
        "Expand": lambda x, shape: x.expand(shape),
    },
    host=("shape",),
    views=("x",),
)
plain({"Transpose": lambda x, perm: x.permute(perm)}, host=("perm",), views=("x",))
plain({"ExpandDims": lambda x, axis: x.unsqueeze(as_tuple(axis)[0])}, host=("axis",), views=("x",))
plain({"ReverseV2": lambda x, axis: torch.flip(x, as_tuple(axis))}, host=("axis",))
plain({"Tile": lambda x, multiples: x.repeat(multiples)}, host=("multiples",))
plain({"ConcatV2": lambda x, concat_dim: torch.cat(x, concat_dim)}, host=("concat_dim",))
plain(
    {"Split": (lambda axis, x, count: torch.tensor_split(x, count, as_tuple(axis)[0]), "count=num_split")},
    host=("split_dim",),
    views=("x",),
)


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


@kernel("SplitV", host=("size_splits", "split_dim"), views=("x",))
def split_v(op: Operator) -> Run:
    """Pieces of these sizes; one may be -1, the rest."""

    def run(x: Tensor, sizes: Ints, dim: Ints) -> tuple[Tensor, ...]:
        axis, pieces = as_tuple(dim)[0], list(as_tuple(sizes))
        if -1 in pieces:
            pieces[pieces.index(-1)] = x.shape[axis] - sum(pieces) - 1
        return torch.split(x, pieces, axis)

    return run


@kernel("Slice", host=("offsets", "size"), views=("x",))
def slice_(op: Operator) -> Run:
    """A box: where it starts and how large it is (-1: to the end)."""

    def run(x: Tensor, offsets: Ints, sizes: Ints) -> Tensor:
        for dim, (start, length) in enumerate(zip(as_tuple(offsets), as_tuple(sizes), strict=True)):
            x = x.narrow(dim, start, x.shape[dim] - start if length == -1 else length)
        return x

    return run


def _index_of(
    begin: Ints, end: Ints, axes: Ints | None, strides: Ints | None
) -> Iterator[tuple[int, int, int, int]]:
    """Axis, begin, end and step of each slice."""
    begins, ends = as_tuple(begin), as_tuple(end)
    steps = as_tuple(strides) if strides is not None else (1,) * len(begins)
    dims = as_tuple(axes) if axes is not None else tuple(range(len(begins)))
    return zip(dims, begins, ends, steps, strict=True)


@kernel("StridedSliceV2", host=("begin", "end", "axes", "strides"), views=("x",))
def strided_slice(op: Operator) -> Run:
    """Python slicing along the axes; bits of the masks leave a bound open or drop an axis."""
    open_begin, open_end = int(op.attr("begin_mask")), int(op.attr("end_mask"))
    shrink = int(op.attr("shrink_axis_mask"))
    if op.attr("ellipsis_mask") or op.attr("new_axis_mask"):
        raise op.refuse("ellipsis_mask and new_axis_mask are not supported")

    def run(x: Tensor, begin: Ints, end: Ints, axes: Ints | None, strides: Ints | None) -> Tensor:
        dropped = []
        for bit, (dim, first, last, step) in enumerate(_index_of(begin, end, axes, strides)):
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
        for bit, (dim, first, last, step) in enumerate(_index_of(begin, end, None, strides)):
            start = None if open_begin >> bit & 1 else first
            stop = None if open_end >> bit & 1 else last
            target = _stepped(target, dim, slice(start, stop, step))
        target.copy_(value)
        return var

    return run


def _region(dense: Tensor, size: Ints, stride: Ints, offset: Ints) -> Tensor:
    """Elements by stride, counted from the first one of the tensor, wherever that lies in its storage."""
    return dense.as_strided(as_tuple(size), as_tuple(stride), dense.storage_offset() + as_tuple(offset)[0])


plain(
    {"AsStrided": lambda x, size, stride, offset: _region(x.contiguous(), size, stride, offset).clone()},
    host=("size", "stride", "storage_offset"),
)


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
        source = _region(src.contiguous(), ssize, sstride, soffset)
        dense = dst.contiguous()
        _region(dense, size, stride, offset).copy_(source)
        return dst if dense is dst else dst.copy_(dense)

    return run


def _torch_padding(paddings: Ints, contiguous: bool) -> list[int]:
    """Pairs per axis, first axis first, as the last-axis-first list of torch."""
    flat = as_tuple(paddings)
    half = len(flat) // 2
    pairs = [(flat[2 * i], flat[2 * i + 1]) if contiguous else (flat[i], flat[half + i]) for i in range(half)]
    return [amount for pair in reversed(pairs) for amount in pair]


_PAD_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "circular": "circular"}


@kernel("PadV3", host=("paddings",))
def pad_v3(op: Operator) -> Run:
    """Pads each axis with a value, a mirror image, the border or the other end."""
    contiguous = bool(op.attr("paddings_contiguous"))
    mode = _PAD_MODES.get(op.attr("mode"))
    if mode is None:
        raise op.refuse(f"mode {op.attr('mode')!r} is unknown")

    def run(x: Tensor, paddings: Ints, value: Tensor | None) -> Tensor:
        pads = _torch_padding(paddings, contiguous)
        if mode == "constant":
            return torch.constant_pad_nd(x, pads, 0 if value is None else value.item())
        return _pad_inner(x, pads, mode)

    return run


def _pad_inner(x: Tensor, pads: list[int], mode: str) -> Tensor:
    """Torch pads the last k axes of a tensor of rank k + 2: the leading axes are the batch, maybe empty."""
    axes = x.dim()
    while axes and pads[2 * axes - 2 : 2 * axes] == [0, 0]:  # the list begins with the last axis
        axes -= 1
    if not axes:
        return x.clone()
    lead, inner = x.shape[: x.dim() - axes], x.shape[x.dim() - axes :]
    padded = F.pad(x.reshape(math.prod(lead), 1, *inner), pads[: 2 * axes], mode)
    return padded.reshape(*lead, *padded.shape[2:])


@kernel("MirrorPad", host=("paddings",))
def mirror_pad(op: Operator) -> Run:
    """Pads with a mirror image without (REFLECT) or with (SYMMETRIC) the border."""
    if op.attr("mode") != "REFLECT":
        raise op.refuse("only mode REFLECT is supported")

    def run(x: Tensor, paddings: tuple[int, ...]) -> Tensor:
        return _pad_inner(x, _torch_padding(paddings, True), "reflect")

    return run


@kernel("PadV3Grad", host=("paddings",))
def pad_v3_grad(op: Operator) -> Run:
    """Adds every padded element's gradient to the element it was copied from."""
    contiguous, edge = bool(op.attr("paddings_contiguous")), op.attr("mode") == "edge"

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


def _repeat_interleave(x: Tensor, repeats: Tensor, axis: int) -> Tensor:
    """Repeats each element along an axis; axis 1000 flattens first."""
    return torch.repeat_interleave(x, repeats.reshape(-1), None if axis == 1000 else axis)


plain({"RepeatInterleave": (_repeat_interleave, "axis")})
