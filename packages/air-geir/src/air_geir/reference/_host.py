"""Arithmetic on sizes with plain Python numbers: no tensor is made for a shape.

Values are integers (rank 0) or tuples of integers (rank 1). A function gives None for arguments it does not handle;
the node then runs as an ordinary kernel.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from air_geir.ir import Node

Host: TypeAlias = "int | tuple[int, ...]"
Function: TypeAlias = Callable[..., Host]


def _both(function: Callable[[int, int], int]) -> Function:
    def run(a: Host, b: Host) -> Host:
        if isinstance(a, int) and isinstance(b, int):
            return function(a, b)
        left = (a,) * len(b) if isinstance(a, int) and isinstance(b, tuple) else a
        right = (b,) * len(a) if isinstance(b, int) and isinstance(a, tuple) else b
        return tuple(map(function, _tuple(left), _tuple(right)))

    return run


def _tuple(value: Host) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else value


def _gather(x: Host, indices: Host, axis: Host = 0) -> Host:
    sizes = _tuple(x)
    return sizes[indices] if isinstance(indices, int) else tuple(sizes[i] for i in indices)


def _concat(x: Sequence[Host], concat_dim: Host) -> Host:
    return tuple(size for part in x for size in _tuple(part))


def _pack(x: Sequence[Host]) -> Host:
    return tuple(size for part in x for size in _tuple(part))


def _reshape(x: Host, shape: Host) -> Host:
    return _tuple(x) if _tuple(shape) else _tuple(x)[0]


_PLAIN: Mapping[str, Function] = {
    "Add": _both(operator.add),
    "Sub": _both(operator.sub),
    "Mul": _both(operator.mul),
    "FloorDiv": _both(operator.floordiv),
    "FloorMod": _both(operator.mod),
    "Minimum": _both(min),
    "Maximum": _both(max),
    "Pow": _both(operator.pow),
    "Neg": lambda x: -x if isinstance(x, int) else tuple(-i for i in x),
    "Gather": _gather,
    "GatherV2": _gather,
    "ConcatV2": _concat,
    "Pack": _pack,
    "Reshape": _reshape,
    "Identity": lambda x: x,
    "Cast": lambda x: x,
    "ReduceProd": lambda x, axes: math.prod(_tuple(x)),
    "Unsqueeze": _tuple,
    "Squeeze": lambda x: x if isinstance(x, int) else x[0] if len(x) == 1 else x,
}
_RANK: Mapping[str, Callable[[Node], bool]] = {
    "Pack": lambda node: all(p is not None and p.desc.rank == 0 for p in node.inputs),
    "Cast": lambda node: int(node.attr("dst_type")) in (3, 9),
    "Unsqueeze": lambda node: len(node.attr("axes")) == 1 and _rank(node) == 0,
    "Reshape": lambda node: node.output.desc.rank in (0, 1),
    "Gather": lambda node: _rank(node) == 1 and not node.attr("batch_dims"),
    "GatherV2": lambda node: _rank(node) == 1 and not node.attr("batch_dims"),
    "ReduceProd": lambda node: _rank(node) == 1 and not node.attr("keep_dims"),
}


def _rank(node: Node) -> int | None:
    first = node.inputs[0]
    return first.desc.rank if first is not None else None


def host_function(node: Node) -> Function | None:
    """How the node computes on plain numbers, None when it cannot."""
    function = _PLAIN.get(node.op_type)
    allowed = _RANK.get(node.op_type)
    return function if function is not None and (allowed is None or allowed(node)) else None
