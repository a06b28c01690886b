"""Functions of TorchAir's `torchair.ops`: tagged events, tagged streams, order between tensors, printing, attention.

Attention with sequence lengths on the device is loaded at its first use, with the part of AIR that compiles it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from air_backend._print import npu_print
from air_streams.ops import (
    npu_create_tagged_event,
    npu_record_tagged_stream,
    npu_tagged_event_record,
    npu_tagged_event_wait,
    record,
    wait,
)

if TYPE_CHECKING:
    from air_geir.ops import npu_fused_infer_attention_score, npu_fused_infer_attention_score_v2


def __getattr__(name: str) -> Any:
    if name not in ("npu_fused_infer_attention_score", "npu_fused_infer_attention_score_v2"):
        raise AttributeError(f"module 'air_backend.ops' has no attribute {name!r}")
    return getattr(importlib.import_module("air_geir.ops"), name)


__all__ = [
    "npu_create_tagged_event",
    "npu_fused_infer_attention_score",
    "npu_fused_infer_attention_score_v2",
    "npu_print",
    "npu_record_tagged_stream",
    "npu_tagged_event_record",
    "npu_tagged_event_wait",
    "record",
    "wait",
]
