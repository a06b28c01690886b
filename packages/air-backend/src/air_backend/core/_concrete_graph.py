"""`ValuePack`, where vLLM-Ascend's patch for Triton imports it from torchair; see npugraph_ex.core._concrete_graph."""

from __future__ import annotations

from air_backend.npugraph_ex.core._concrete_graph import ValuePack, _is_symlist

__all__ = ["ValuePack", "_is_symlist"]
