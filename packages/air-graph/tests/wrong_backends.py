"""Backends that are wrong on purpose, each in one way."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

Compiled = Callable[..., Any]


def dense(gm: GraphModule, inputs: Sequence[Any]) -> Compiled:
    """Every output is a dense copy: strides, offsets and shared memory are lost."""

    def run(*args: Any) -> tuple[Any, ...]:
        return tuple(o.contiguous().clone() if isinstance(o, Tensor) else o for o in gm(*args))

    return run


def one_buffer(gm: GraphModule, inputs: Sequence[Any]) -> Compiled:
    """Every call writes its outputs where the call before has written its own."""
    kept: dict[int, Tensor] = {}

    def buffer(at: int, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if at not in kept or kept[at].shape != value.shape:
            kept[at] = value.detach().clone()
        return kept[at].copy_(value.detach())

    return lambda *args: tuple(buffer(at, value) for at, value in enumerate(gm(*args)))


def forgets_writes(gm: GraphModule, inputs: Sequence[Any]) -> Compiled:
    """Inputs keep the values that they came with."""

    def run(*args: Any) -> Any:
        return gm(*(a.clone() if isinstance(a, Tensor) and not a.requires_grad else a for a in args))

    return run


def wrong_negative(gm: GraphModule, inputs: Sequence[Any]) -> Compiled:
    """`neg` gives the absolute value."""

    def compiler(graph: GraphModule, inputs: Sequence[Any]) -> Compiled:
        for node in graph.graph.nodes:
            if node.target is torch.ops.aten.neg.default:
                node.target = torch.ops.aten.abs.default
        graph.recompile()
        return graph.forward

    compiled: Compiled = aot_autograd(fw_compiler=compiler)(gm, inputs)
    return compiled


def raw_error(gm: GraphModule, inputs: Sequence[Any]) -> Compiled:
    raise RuntimeError("setStorage: out of bounds")


def refusal(gm: GraphModule, inputs: Sequence[Any]) -> Compiled:
    raise RuntimeError("no such operator\n  at      model.py:7   x.tril()\n  advice  do without it")


def refusal_without_a_place(gm: GraphModule, inputs: Sequence[Any]) -> Compiled:
    raise RuntimeError("no such operator\n  advice  do without it")


def ends_the_process(gm: GraphModule, inputs: Sequence[Any]) -> Compiled:
    """Dies at the graphs that transpose, as a segmentation fault would."""
    if any("transpose" in str(node.target) for node in gm.graph.nodes):
        os._exit(11)
    return gm.forward
