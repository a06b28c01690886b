"""Stream code beside a checkpoint that is trained leaves the graph compiled, on one stream."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from air_backend import _records, ops, scope
from air_streams import STREAM_OPS, ScopeIgnored

ready = ops.npu_create_tagged_event("beside a checkpoint")


def step(x: Tensor, w: Tensor) -> Tensor:
    y = x @ w
    ops.npu_tagged_event_record(ready)
    with scope.npu_stream_switch("side"):
        ops.npu_tagged_event_wait(ready)
        z = y * 2
        ops.npu_tagged_event_record(ready)
        marker = ops.record()
    ops.wait([marker])
    result: Tensor = checkpoint(lambda t: torch.relu(t @ w), z, use_reentrant=False)
    return result


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_S19_streams_beside_a_checkpoint_that_is_trained_are_ignored_and_the_graph_is_compiled(
    mode: str,
) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(step, backend="air", mode=mode)
    x, ours = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    with pytest.warns(ScopeIgnored, match="a checkpoint in it is trained") as caught:
        compiled(x, ours).sum().backward()
    step(x, theirs).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert any("test_streams_beside_checkpoints.py" in str(each.message) for each in caught)
    records = {record.role: record for record, _ in _records.alive()}
    assert set(records) == {"forward", "backward"}
    assert records["forward"].awaited.recorded == ()
    assert not any(node.target in STREAM_OPS for record in records.values() for node in record.plan.nodes)


def test_S19_streams_beside_a_checkpoint_that_is_not_trained_stay() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(step, backend="air", mode="reduce-overhead")
    x, w = torch.randn(4, 4), torch.randn(4, 4)
    torch.testing.assert_close(compiled(x, w), step(x, w))
    assert _records.alive()[-1][0].plan.is_multi_stream
