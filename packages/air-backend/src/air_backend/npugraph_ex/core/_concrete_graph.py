"""`ValuePack`: a value of the trace beside what stands for it in the graph, as vLLM-Ascend's patch for Triton has it.

AIR keeps what torch knows of a value in the metadata of its node and makes no pairs. A program that replaces the class
changes nothing in a compilation, and need not: arguments in dictionaries go through the graph as they are.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["ValuePack"]


class ValuePack:
    """`meta`, a value of the trace, and `npu`, what stands for it; the same where only one is given."""

    def __init__(self, meta: Any, npu_meta: Any = None) -> None:
        self._meta = meta
        self._npu_meta = meta if npu_meta is None else npu_meta

    @property
    def meta(self) -> Any:
        return self._meta

    @property
    def npu(self) -> Any:
        return self._npu_meta

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(self._meta, dict):
            raise ValueError(
                f"only a dictionary has keys, and this is a {type(self._meta).__name__}: {key!r}"
            )
        return self._meta.get(key)

    def __repr__(self) -> str:
        return f"ValuePack(meta={self._meta!r}, npu={self._npu_meta!r})"


def _is_symlist(values: Any) -> bool:
    """Whether a list holds a size among its pairs."""
    if not isinstance(values, (list, tuple)):
        return False
    return any(
        isinstance(value, ValuePack) and isinstance(value.meta, (int, torch.SymInt)) for value in values
    )
