"""The logger, and the pair of values that vLLM-Ascend looks for, under the module names of npugraph_ex."""

from __future__ import annotations

from air_backend.npugraph_ex.core import _concrete_graph, utils

__all__ = ["_concrete_graph", "utils"]
