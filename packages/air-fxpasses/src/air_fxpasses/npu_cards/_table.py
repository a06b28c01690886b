"""Every card, and how to find one."""

from __future__ import annotations

from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from air_fxpasses.npu_cards._card import Kernel, NpuOp
from air_fxpasses.npu_cards.errors import NotAnNpuOperator
from air_fxpasses.npu_cards.families import FAMILIES

_rows: Final = MappingProxyType({op.name: op for family in FAMILIES for op in family})


def operators() -> tuple[NpuOp, ...]:
    """Every card."""
    return tuple(_rows.values())


def find(name: str) -> NpuOp | None:
    """The card of an operator, None for one that has none."""
    return _rows.get(name.removeprefix("npu::").removesuffix(".default"))


def row(name: str) -> NpuOp:
    """The card of an operator: `"npu_rms_norm"`, `"npu::npu_rms_norm"` or with an overload."""
    card = find(name)
    if card is None:
        raise NotAnNpuOperator(name, tuple(get_close_matches(name.removeprefix("npu::"), _rows, 2)))
    return card


def reference(name: str) -> Kernel:
    """The kernel of an operator in plain torch, with or without torch_npu loaded."""
    return row(name).reference
