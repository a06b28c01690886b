"""Collective communication, over torch.distributed on the host."""

from __future__ import annotations

from collections.abc import Sequence

import torch
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
        y = x.new_empty((x.shape[0] * group.size(), *x.shape[1:]))
        dist.all_gather_into_tensor(y, x.contiguous(), group)
        return y

    return run


@kernel("HcomReduceScatter")
def reduce_scatter(op: Operator) -> Run:
    """The reduction over all ranks, a share of it on each."""
    how = _how(op)

    def run(x: Tensor) -> Tensor:
        group = _group(op)
        whole = x.contiguous().clone()
        dist.all_reduce(whole, how, group)
        return whole.chunk(group.size())[group.rank()].clone()

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
        group = _group(op)
        flat = data.contiguous().reshape(-1)
        out = flat.new_empty(sum(recv_counts))
        own = group.rank()
        pieces = list(torch.split(flat, list(send_counts)))
        places = list(torch.split(out, list(recv_counts)))
        places[own].copy_(pieces[own])
        _exchange(pieces, places, own, group)
        return out

    return run


def _exchange(pieces: Sequence[Tensor], places: Sequence[Tensor], own: int, group: dist.ProcessGroup) -> None:
    others = [r for r in range(group.size()) if r != own]
    ranks = {r: dist.get_global_rank(group, r) for r in others}
    jobs = [dist.isend(pieces[r].contiguous(), ranks[r], group) for r in others]
    for r in others:
        dist.recv(places[r], ranks[r], group)
    for job in jobs:
        if job is not None:
            job.wait()
