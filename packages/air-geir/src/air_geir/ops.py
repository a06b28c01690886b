"""Fused attention whose sequence lengths are tensors: they may be computed by the graph and stay on the device.

The operators of torch_npu take lengths as numbers of the host. These take one-dimensional integer tensors; everything
else is as there. In Ascend IR both are FusedInferAttentionScore; called outside a graph, the lengths are read first.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses import npu_ops
from air_geir.converters import add
from air_geir.converters.npu_by_card import converter_of

__all__ = ["npu_fused_infer_attention_score", "npu_fused_infer_attention_score_v2"]

LENGTHS: Final = frozenset(length for name in __all__ for length in npu_ops.row(name).updatable)
"""Arguments that are numbers in torch_npu's operators and tensors here."""
_library: Final = torch.library.Library("air_geir", "DEF")


def _declare(name: str) -> Any:
    """The operator in this package's namespace: schema, result sizes, and the call outside a graph."""
    row = npu_ops.row(name)
    schema = row.schema.partition("::")[2]
    for argument in LENGTHS:
        schema = schema.replace(f"SymInt[]? {argument}", f"Tensor? {argument}")
    _library.define(schema)

    def sizes(query: Tensor, key: Tensor, value: Tensor, **given: Any) -> Any:
        return row.fake(query, key, value, **{k: v for k, v in given.items() if k not in LENGTHS})

    def run(query: Tensor, key: Tensor, value: Tensor, **given: Any) -> Any:
        read = {k: v.tolist() if k in LENGTHS and v is not None else v for k, v in given.items()}
        return getattr(torch.ops.npu, name).default(query, key, value, **read)

    _library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"air_geir::{name}", sizes, lib=_library)
    return getattr(torch.ops.air_geir, name)


npu_fused_infer_attention_score: Final = _declare("npu_fused_infer_attention_score")
npu_fused_infer_attention_score_v2: Final = _declare("npu_fused_infer_attention_score_v2")
for _name in __all__:
    add(getattr(torch.ops.air_geir, _name).default, converter_of(_name), family="npu")
