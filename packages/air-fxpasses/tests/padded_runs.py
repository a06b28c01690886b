"""The judge of proofs: runs a graph at the caller's size and at a larger one, and compares what is no padding.

What is added to an input is noise, not copies of its rows, wherever a number can be noise: a result that depends on
it is found out.  Whole numbers are copies of the first row, since they may be indices; so is everything where a proof
holds for copies alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import SymInt, Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_leaves

from air_fxpasses.padding import Label, Labels, Proof, prove


def traced(function: Callable[..., Any], *inputs: Any) -> GraphModule:
    """The ATen graph of a function, with a symbol for each size that differs from 0 and 1."""
    return make_fx(function, tracing_mode="symbolic", _allow_non_fake_inputs=True)(*inputs)


def symbols_of(gm: GraphModule) -> dict[Any, int]:
    """The symbols of the inputs' sizes, and the values they were traced with."""
    found = {}
    for node in gm.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, Tensor) else [value]:
            if isinstance(size, SymInt) and size.node.expr.is_Symbol:
                found[size.node.expr] = int(size.node.hint)
    return found


def accepts(gm: GraphModule, values: dict[Any, int]) -> bool:
    """Whether the graph was traced under conditions that these sizes meet."""
    sizes = [
        size
        for node in gm.graph.find_nodes(op="placeholder")
        for size in getattr(node.meta.get("val"), "shape", ())
        if isinstance(size, SymInt)
    ]
    environment = sizes[0].node.shape_env
    return all(environment.replace(guard.expr).xreplace(values) == True for guard in environment.guards)  # noqa: E712  # sympy's true


def enlarged(tensor: Tensor, labels: Labels, more: int, used: int, *, noise: bool) -> Tensor:
    """The tensor with `more` rows of noise, or copies of its first ones, for each padded dimension."""
    for dim, label in enumerate(labels):
        if label is not None:
            block = tensor.shape[dim] // used
            rows = tensor.narrow(dim, 0, block).repeat(
                *[more if d == dim else 1 for d in range(tensor.dim())]
            )
            if noise and rows.is_floating_point():
                rows = torch.randn_like(rows) * 1e3
            tensor = torch.cat([tensor, rows], dim)
    return tensor


def without_padding(
    tensor: Tensor, labels: Sequence[Label | None], padded: int, used: int, values: dict[Any, int]
) -> Tensor:
    """What is left of a result of the larger run."""
    for dim, label in enumerate(labels):
        if label is not None:
            blocks = tensor.unflatten(dim, (-1, padded, int(label.inner.xreplace(values))))
            tensor = blocks.narrow(dim + 1, 0, used).flatten(dim, dim + 2)
    return tensor


def check(gm: GraphModule, proof: Proof, inputs: Sequence[Any], more: int = 3) -> int:
    """Compares every result; gives how many have padding."""
    values = symbols_of(gm)
    used = values[proof.size.symbol]
    noise = not proof.needs_copies
    larger = [
        value if labels is None else enlarged(value, labels, more, used, noise=noise)
        for value, labels in zip(inputs, proof.inputs, strict=True)
    ]
    torch.manual_seed(0)
    expected = tree_leaves(gm(*inputs))
    torch.manual_seed(0)  # numbers drawn where no padding comes are the same
    padded = tree_leaves(gm(*larger))
    for one, other, labels in zip(expected, padded, proof.results, strict=True):
        if isinstance(one, Tensor):
            assert labels is not None
            part = without_padding(other, labels, used + more, used, values)
            torch.testing.assert_close(part, one, equal_nan=True, rtol=1e-4, atol=1e-4)
    return sum(any(labels) for labels in proof.results if labels)


__all__ = ["accepts", "check", "prove", "symbols_of", "traced"]
