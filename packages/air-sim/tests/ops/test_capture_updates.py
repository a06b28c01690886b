"""The lengths of a captured attention are replaced before a replay, through torch_npu's own update of task groups."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

torch_npu = pytest.importorskip("torch_npu", exc_type=ImportError)

N, D, LENGTH = 4, 16, 8


def expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, length: int) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k[:, :, :length], v[:, :, :length], scale=0.25)


def test_a_replay_attends_to_the_updated_length() -> None:
    q, k, v = (torch.randn(1, N, size, D).half() for size in (1, LENGTH, LENGTH))
    on_device = [t.npu() for t in (q, k, v)]
    settings = {"num_heads": N, "input_layout": "BNSD", "scale": 0.25, "actual_seq_lengths_kv": [3]}
    workspace = torch_npu._npu_fused_infer_attention_score_get_max_workspace(*on_device, **settings)
    out, lse = torch.empty(1, N, 1, D).half().npu(), torch.empty(1).half().npu()
    graph, update, stream = torch.npu.NPUGraph(), torch.npu.Stream(), torch.npu.Stream()
    with torch.npu.graph(graph, stream=stream):
        torch.npu.graph_task_group_begin(stream)
        torch_npu.npu_fused_infer_attention_score.out(
            *on_device, **settings, workspace=workspace, out=[out, lse]
        )
        handle = torch.npu.graph_task_group_end(stream)
    for length in (3, 6, 8):
        with torch.npu.stream(update):
            torch.npu.graph_task_update_begin(update, handle)
            torch_npu.npu_fused_infer_attention_score.out(
                *on_device,
                **{**settings, "actual_seq_lengths_kv": [length]},
                workspace=workspace,
                out=[out, lse],
            )
            torch.npu.graph_task_update_end(update)
        torch.npu.synchronize()
        graph.replay()
        wanted = expected(q.float(), k.float(), v.float(), length)
        torch.testing.assert_close(out.cpu().float(), wanted, atol=5e-3, rtol=5e-3)
