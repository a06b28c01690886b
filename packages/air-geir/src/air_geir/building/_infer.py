"""What is known about a value between the operators of one converter.

Results that stand for a torch value take torch's own description. These rules are for the values in between; a shape
that no rule gives stays unknown, which an engine infers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch

from air_geir import prototypes
from air_geir.building._value import Value
from air_geir.ir import Dim

Shape: TypeAlias = "tuple[Dim, ...] | None"

_BROADCASTING = frozenset({"elementwise", "comparison", "activation"})
_SAME_SHAPE = frozenset(
    {"Cast", "TensorMove", "Identity", "ZerosLike", "OnesLike", "SoftmaxV2", "LogSoftmaxV2", "Cumsum", "ReverseV2",
     "Roll", "Tril", "Triu", "MaskedFill", "SelectV2", "Assign"}
)  # fmt: skip
_BOOL = frozenset(
    {"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr", "LogicalNot",
     "IsNan", "IsInf", "IsFinite", "ReduceAll", "ReduceAny"}
)  # fmt: skip
_SECOND = frozenset({"SelectV2"})


def dtype_of(op_type: str, operands: Sequence[Value]) -> torch.dtype | None:
    """The type of the (first) output, None when nothing is fed."""
    if op_type in _BOOL:
        return torch.bool
    at = 1 if op_type in _SECOND else 0
    return operands[at].dtype if len(operands) > at else None


def shape_of(op_type: str, operands: Sequence[Value]) -> Shape:
    """The shape of the output when a rule gives it."""
    if op_type in _SAME_SHAPE or prototypes.family(op_type) in _BROADCASTING:
        return broadcast([o.shape for o in operands])
    return None


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The common shape; an expression beside another expression is taken to be equal to it, as torch checked."""
    known = [s for s in shapes if s is not None]
    if len(known) != len(shapes) or not known:
        return None
    rank = max(map(len, known))
    return tuple(_common([s[len(s) - k] for s in known if len(s) >= k]) for k in range(rank, 0, -1))


def _common(dims: Sequence[Dim]) -> Dim:
    wide = [d for d in dims if d != 1]
    numbers = [d for d in wide if isinstance(d, int)]
    return (numbers or wide or [1])[0]
