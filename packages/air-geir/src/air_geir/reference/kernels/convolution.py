"""Convolutions. Attribute lists follow `data_format`; tensors are taken in the order it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch.nn.functional as F  # noqa: N812
import torch.nn.grad as nn_grad
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel

_FORWARD = {2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {2: F.conv_transpose2d, 3: F.conv_transpose3d}


@dataclass(frozen=True)
class _Window:
    stride: list[int]
    dilation: list[int]
    pads: list[int]
    groups: int
    channels_last: bool

    @property
    def axes(self) -> int:
        return len(self.stride)

    def front(self, x: Tensor) -> Tensor:
        """Channels in the second place."""
        return x.movedim(-1, 1) if self.channels_last else x

    def back(self, y: Tensor) -> Tensor:
        return y.movedim(1, -1) if self.channels_last else y

    def symmetric(self) -> list[int] | None:
        """One padding per axis, when both sides are equal."""
        pairs = [self.pads[2 * i : 2 * i + 2] for i in range(self.axes)]
        return [p[0] for p in pairs] if all(p[0] == p[1] for p in pairs) else None

    def padded(self, x: Tensor) -> Tensor:
        """The input with its padding as zeros."""
        flipped = [p for i in reversed(range(self.axes)) for p in self.pads[2 * i : 2 * i + 2]]
        return F.pad(x, flipped)


def _window(op: Operator) -> _Window:
    last = op.attr("data_format").endswith("C")
    inner = slice(1, -1) if last else slice(2, None)
    return _Window(
        op.ints("strides")[inner], op.ints("dilations")[inner], op.ints("pads"), int(op.attr("groups")), last
    )


@kernel("Conv2D", "Conv3D")
def convolution(op: Operator) -> Run:
    """Sums of products under a sliding window, plus a bias per output channel."""
    window = _window(op)
    function, pads = _FORWARD[window.axes], window.symmetric()

    def run(x: Tensor, filter: Tensor, bias: Tensor | None, offset_w: Tensor | None = None) -> Tensor:
        source, weight = window.front(x), window.front(filter)
        if pads is None:
            source = window.padded(source)
        padding = pads if pads is not None else 0
        return window.back(
            function(source, weight, bias, window.stride, padding, window.dilation, window.groups)
        )

    return run


@kernel("Conv2DTranspose", "Conv3DTranspose", host=("input_size",))
def convolution_transposed(op: Operator) -> Run:
    """The adjoint of a convolution; the wanted size of the output is an input."""
    window = _window(op)
    inner = slice(1, -1) if window.channels_last else slice(2, None)
    function, pads, extra = _TRANSPOSED[window.axes], window.symmetric(), op.ints("output_padding")[inner]
    if pads is None:
        raise op.refuse("padding must be equal on both sides")

    def run(
        size: Sequence[int], x: Tensor, filter: Tensor, bias: Tensor | None, offset_w: Tensor | None
    ) -> Tensor:
        source, weight = window.front(x), window.front(filter)
        y = function(source, weight, bias, window.stride, pads, extra, window.groups, window.dilation)
        return window.back(y)

    return run


@kernel("Conv2DBackpropInput", "Conv3DBackpropInput", host=("input_size",))
def convolution_input_gradient(op: Operator) -> Run:
    """The gradient of a convolution for its input."""
    compute = _gradient(op, {2: nn_grad.conv2d_input, 3: nn_grad.conv3d_input})
    return lambda size, filter, dy: compute(tuple(size), filter, dy)


@kernel("Conv2DBackpropFilter", "Conv3DBackpropFilter", host=("filter_size",))
def convolution_filter_gradient(op: Operator) -> Run:
    """The gradient of a convolution for its filter."""
    compute = _gradient(op, {2: nn_grad.conv2d_weight, 3: nn_grad.conv3d_weight})
    return lambda x, size, dy: compute(x, tuple(size), dy)


def _gradient(op: Operator, functions: Mapping[int, Run]) -> Run:
    """The function for so many axes, over what stands in its place and the gradient of the result."""
    window = _window(op)
    pads = window.symmetric()
    if pads is None or window.channels_last:
        raise op.refuse("padding must be equal on both sides and channels must come second")
    given = {"stride": window.stride, "padding": pads, "dilation": window.dilation, "groups": window.groups}
    return partial(functions[window.axes], **given)
