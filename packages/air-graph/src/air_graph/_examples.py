"""Example values of nodes: the tensors in one, and computing with them without a trace in the graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx import Graph, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves


def example_tensors(node: Node) -> tuple[Tensor, ...]:
    """The tensors among a node's example values: none for a number, several for a list."""
    value = node.meta.get("val")
    if isinstance(value, Tensor):
        return (value,)
    return tuple(leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor))


def device_kinds(graph: Graph) -> set[str]:
    """The kinds of devices that the values of a graph live on."""
    return {value.device.type for node in graph.nodes for value in example_tensors(node)} - {"meta"}


def example_arguments(node: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a node is called with, where its operands are their example values."""
    given: Any = map_arg((node.args, node.kwargs), lambda operand: operand.meta.get("val"))
    args, kwargs = given
    return args, kwargs


def computed_again(node: Node) -> Any:
    """What the target of a call gives for the example values of its operands as they are now."""
    args, kwargs = example_arguments(node)
    target: Any = node.target
    return target(*args, **kwargs)


@contextmanager
def computing_examples(mode: FakeTensorMode | None) -> Iterator[None]:
    """Inside, operators compute example values of this mode, and what they ask of sizes leaves no guard."""
    if mode is None:
        yield
    elif mode.shape_env is None:
        with mode:
            yield
    else:
        with mode, mode.shape_env.suppress_guards():
            yield


def mode_of(value: Any) -> FakeTensorMode | None:
    """The mode that one example value belongs to."""
    mode = getattr(value, "fake_mode", None)
    return mode if isinstance(mode, FakeTensorMode) else None
