"""Functions of TorchAir's `torchair.ops`: tagged events, tagged streams, order between tensors, printing."""

from __future__ import annotations

from air_backend._absent import refused
from air_backend._print import npu_print
from air_streams.ops import (
    npu_create_tagged_event,
    npu_record_tagged_stream,
    npu_tagged_event_record,
    npu_tagged_event_wait,
    record,
    wait,
)

npu_fused_infer_attention_score = refused("ops.npu_fused_infer_attention_score")
npu_fused_infer_attention_score_v2 = refused("ops.npu_fused_infer_attention_score_v2")

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
