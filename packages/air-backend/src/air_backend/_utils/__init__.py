"""`get_npu_default_decompositions`, as xpu_graph imports it: it traces a module itself and asks how.

AIR decomposes nothing before a graph is lowered: converters, passes and the executors take ATen as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["get_npu_default_decompositions"]


def get_npu_default_decompositions() -> dict[Any, Callable[..., Any]]:
    """The decompositions that a graph needs before `get_compiler`: none."""
    return {}
