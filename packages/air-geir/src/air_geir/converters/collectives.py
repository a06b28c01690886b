"""Functional collectives of torch as communication operators."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._registry import converts
from air_geir.ir import Dim

_REDUCTIONS = {"sum": "sum", "product": "prod", "prod": "prod", "min": "min", "max": "max"}


def _reduction(ctx: Context, name: str) -> str:
    """The operator's name of a reduction; bitwise ones and the average have none and are refused."""
    found = _REDUCTIONS.get(name.lower())
    if found is None:
        ctx.refuse(f"reduction {name!r} has no operator", f"use one of {', '.join(sorted(set(_REDUCTIONS)))}")
    return found


def _group(ctx: Context, group: Any) -> str:
    if not isinstance(group, str):
        ctx.refuse("a process group must be given by its name", "pass group.group_name")
    return group


@converts("_c10d_functional.all_reduce.default")
def all_reduce(ctx: Context, input: Value, reduce_op: str, group_name: str) -> Value:
    """all_reduce(Tensor input, str reduce_op, Any group_name) -> Tensor"""
    average = reduce_op.lower() == "avg"
    how = "sum" if average else _reduction(ctx, reduce_op)
    total = ctx.emit(
        "HcomAllReduce", input, reduction=how, group=_group(ctx, group_name), fusion=0, shape=input.shape
    )
    if not average:
        return total
    ranks = torch.distributed.distributed_c10d._resolve_process_group(group_name).size()  # type: ignore[attr-defined, arg-type]  # torch exports it to nobody, and every caller needs it
    return ctx.emit("RealDiv", total, ctx.const(ranks, input.dtype), shape=input.shape)


@converts("_c10d_functional.all_gather_into_tensor.default")
def all_gather(ctx: Context, input: Value, group_size: int, group_name: str) -> Value:
    """all_gather_into_tensor(Tensor input, int group_size, Any group_name) -> Tensor"""
    return ctx.emit("HcomAllGather", input, rank_size=group_size, group=_group(ctx, group_name))


@converts("_c10d_functional.reduce_scatter_tensor.default")
def reduce_scatter(ctx: Context, input: Value, reduce_op: str, group_size: int, group_name: str) -> Value:
    """reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, Any group_name) -> Tensor"""
    how = _reduction(ctx, reduce_op)
    return ctx.emit(
        "HcomReduceScatter", input, reduction=how, group=_group(ctx, group_name), rank_size=group_size
    )


@converts("_c10d_functional.broadcast.default")
def broadcast(ctx: Context, input: Value, src: int, group_name: str) -> Value:
    """broadcast(Tensor input, int src, Any group_name) -> Tensor"""
    (result,) = ctx.emit_many(
        "HcomBroadcast",
        [input],
        root_rank=src,
        group=_group(ctx, group_name),
        num_outputs=1,
        shape=[input.shape],
    )
    return result


@converts("_c10d_functional.all_to_all_single.default")
def all_to_all_single(
    ctx: Context, input: Value, output_split_sizes: Any, input_split_sizes: Any, group_name: str
) -> Value:
    """all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, Any group_name) -> Tensor"""  # noqa: E501
    row = math.prod(input.dims[1:])
    sent = [ctx.dim(s) * row for s in input_split_sizes]
    received = [ctx.dim(s) * row for s in output_split_sizes]
    flat = ctx.emit(
        "HcomAllToAllV", input, ctx.shape(sent), ctx.shape(_starts(sent)), ctx.shape(received),
        ctx.shape(_starts(received)), group=_group(ctx, group_name), shape=None,
    )  # fmt: skip
    return ctx.reshape(flat, ctx.out_shape)


def _starts(counts: list[Dim]) -> list[Dim]:
    return list(itertools.accumulate(counts[:-1], initial=0))


@converts("_c10d_functional.wait_tensor.default")
def wait_tensor(ctx: Context, tensor: Value) -> Value:
    """wait_tensor(Tensor tensor) -> Tensor"""
    return ctx.emit("Identity", tensor)
