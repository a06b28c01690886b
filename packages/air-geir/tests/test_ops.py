"""Attention with sequence lengths that are tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from air_fxpasses import npu_ops
from air_geir import compile_graph, ops
from air_geir.proof import trace

NAMES = {
    "npu_fused_infer_attention_score": ("num_heads", "num_key_value_heads", "scale", "actual_seq_lengths_kv"),
    "npu_fused_infer_attention_score_v2": (
        "num_query_heads", "num_key_value_heads", "softmax_scale", "actual_seq_kvlen",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_G37_lengths_computed_in_the_graph_reach_the_attention(name: str) -> None:
    heads, key_heads, scale, lengths = NAMES[name]
    options = {heads: 4, key_heads: 2, scale: 0.25, "input_layout": "BNSD"}
    query, key, value = torch.randn(3, 4, 1, 16), torch.randn(3, 2, 8, 16), torch.randn(3, 2, 8, 16)

    def step(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, before: torch.Tensor) -> Any:
        return getattr(ops, name)(q, k, v, **options, **{lengths: before + 1})[0]

    before = torch.tensor([7, 0, 3])
    args = [query, key, value, before]
    run = compile_graph(trace(step, args), args, engine="reference")
    (attention,) = run.program.graph.of_type("FusedInferAttentionScore")
    fed = attention.inputs[attention.input_names.index("actual_seq_lengths_kv")]
    assert fed is not None
    assert fed.node.op_type == "Add", "the lengths stay in the graph"
    for counts in ([7, 0, 3], [1, 5, 2]):
        plain = npu_ops.reference(name)(query, key, value, **options, **{lengths: [n + 1 for n in counts]})[0]
        (result,) = run(query, key, value, torch.tensor(counts))
        torch.testing.assert_close(result, plain)
        torch.testing.assert_close(step(query, key, value, torch.tensor(counts)), plain)
