"""Collective communication, over torch.distributed on the host.

Each is the collective of torch that eager starts, so that ranks meet also where one of them runs the graph eagerly.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel
from air_graph import ranks

_REDUCE = {"sum": "SUM", "prod": "PRODUCT", "max": "MAX", "min": "MIN"}


def _group(op: Operator) -> dist.ProcessGroup:
    """The process group by its name."""
    if not ranks.is_in_a_job():
        raise op.refuse("torch.distributed is not initialised in this process")
    return dist.distributed_c10d._resolve_process_group(op.attr("group"))  # type: ignore[attr-defined]  # torch exports it to nobody, and every caller needs it


def _how(op: Operator) -> dist.ReduceOp.RedOpType:
    name = op.attr("reduction")
    if name not in _REDUCE:
        raise op.refuse(f"reduction {name!r} is unknown")
    found: dist.ReduceOp.RedOpType = getattr(dist.ReduceOp, _REDUCE[name])
    return found


@kernel("HcomAllReduce")
def all_reduce(op: Operator) -> Run:
    """The reduction over all ranks, on every rank."""
    how = _how(op)

    def run(x: Tensor) -> Tensor:
        y = x.contiguous().clone()
        dist.all_reduce(y, how, _group(op))
        return y

    return run


@kernel("HcomAllGather")
def all_gather(op: Operator) -> Run:
    """Every rank's tensor, joined along the first axis."""

    def run(x: Tensor) -> Tensor:
        group = _group(op)
        rows = x.reshape(1) if x.dim() == 0 else x.contiguous()  # numbers are joined to a vector
        y = x.new_empty((rows.shape[0] * group.size(), *rows.shape[1:]))
        dist.all_gather_into_tensor(y, rows, group)
        return y

    return run


@kernel("HcomReduceScatter")
def reduce_scatter(op: Operator) -> Run:
    """The reduction over all ranks, a share of it on each."""
    how = _how(op)

    def run(x: Tensor) -> Tensor:
        group = _group(op)
        y = x.new_empty((x.shape[0] // group.size(), *x.shape[1:]))
        dist.reduce_scatter_tensor(y, x.contiguous(), how, group)
        return y

    return run


@kernel("HcomBroadcast")
def broadcast(op: Operator) -> Run:
    """One rank's tensors on every rank."""
    root = int(op.attr("root_rank"))

    def run(x: Sequence[Tensor]) -> list[Tensor]:
        group = _group(op)
        copies = [t.contiguous().clone() for t in x]
        for copy in copies:
            dist.broadcast(copy, dist.get_global_rank(group, root), group)
        return copies

    return run


@kernel("HcomAllToAllV", host=("send_counts", "recv_counts"))
def all_to_all(op: Operator) -> Run:
    """A piece of every rank's tensor to every other rank; counts are in elements."""

    def run(
        data: Tensor, send_counts: Sequence[int], sent: Tensor, recv_counts: Sequence[int], received: Tensor
    ) -> Tensor:
        flat = data.contiguous().reshape(-1)
        out = flat.new_empty(sum(recv_counts))
        dist.all_to_all_single(out, flat, list(recv_counts), list(send_counts), _group(op))
        return out

    return run
