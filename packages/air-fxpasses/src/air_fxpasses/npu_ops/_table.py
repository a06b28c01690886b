"""Every declared operator, and how to find one."""

from __future__ import annotations

from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from air_fxpasses.npu_ops._row import Kernel, NpuOp
from air_fxpasses.npu_ops.errors import NotAnNpuOperator
from air_fxpasses.npu_ops.families import FAMILIES

_rows: Final = MappingProxyType({op.name: op for family in FAMILIES for op in family})


def operators() -> tuple[NpuOp, ...]:
    """Every row."""
    return tuple(_rows.values())


def row(name: str) -> NpuOp:
    """The row of an operator: `"npu_rms_norm"`, `"npu::npu_rms_norm"` or with an overload."""
    short = name.removeprefix("npu::").removesuffix(".default")
    if short not in _rows:
        raise NotAnNpuOperator(name, tuple(get_close_matches(short, _rows, 2)))
    return _rows[short]


def reference(name: str) -> Kernel:
    """The kernel of an operator in plain torch, with or without torch_npu loaded."""
    return row(name).reference
