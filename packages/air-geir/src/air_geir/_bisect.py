"""Which nodes a running bisection leaves to torch, to find the converter that is wrong.

Each node is asked about once, before the graph is lowered. One that is left out runs eagerly, between compiled pieces.
"""

from __future__ import annotations

import inspect
from functools import partial

import torch
from torch import fx

from air_fxpasses import is_left_out
from air_geir.converters import find_converter, name_of
from air_geir.lowering import source_of
from air_graph.pieces import LeftOut

REASON = "left out by a bisection"


def nodes_left_out(gm: fx.GraphModule) -> list[LeftOut]:
    """The operators of the graph that run without their converter; none outside a bisection."""
    found = []
    for node in gm.graph.nodes:
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        if isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)):
            continue
        if is_left_out("converters", partial(describe, node)):
            found.append(LeftOut(node.name, name_of(node.target), REASON, source_of(node)))
    return found


def describe(node: fx.Node) -> str:
    """The operator, where its converter is written, and the user's line."""
    target = node.target
    converter = find_converter(target)
    if converter is None:
        by = "by decomposition"
    else:
        function = inspect.unwrap(converter.function)
        code = getattr(function, "__code__", None)
        name = f"{function.__module__}.{getattr(function, '__qualname__', repr(function))}"
        by = f"by {name}" + (f" (line {code.co_firstlineno})" if code is not None else "")
    source = source_of(node)
    return f"{name_of(target)} {by}, node {node.name}" + (f" at {source}" if source else "")
