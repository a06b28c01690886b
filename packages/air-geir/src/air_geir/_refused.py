"""Operators that an engine refuses because the chip has no program for them: like those without a converter.

    the engine    No supported Ops kernel and engine are found for [GroupNormV2_3], optype [GroupNormV2].
    found         aten.native_group_norm.default at model.py:12, and every other one with the same types

An engine may say so as late as the first call of a graph. Nothing has run by then, so the call can go another way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from torch import fx

from air_geir.converters import name_of
from air_geir.errors import EngineError, UnsupportedGraphError
from air_geir.ir import Graph, Node
from air_geir.lowering import cannot_lower, source_of
from air_graph.pieces import LeftOut

_SAID: Final = re.compile(r"No supported Ops kernel and engine are found for \[([^\]]+)\], optype \[\w+\]")


def by_operators(error: EngineError, gm: fx.GraphModule, graph: Graph) -> UnsupportedGraphError | None:
    """The same error by the operators of `gm`; None where it says something else, or of no operator of the program."""
    named = set(_SAID.findall("\n".join(map(str, _chain(error)))))
    nodes = [node for each in graph.graphs() for node in each]
    kinds = {_kind(node) for node in nodes if node.name in named}
    known = {node.name: node for node in gm.graph.nodes}
    found = {}
    for node in nodes:
        cause = known.get(node.origin.fx) if node.origin is not None else None
        if cause is not None and _kind(node) in kinds:
            reason = f"the engine has no program for {node.op_type} on this chip"
            found[cause.name] = LeftOut(cause.name, name_of(cause.target), reason, source_of(cause))
    return cannot_lower(graph.name, list(found.values())) if found else None


def _kind(node: Node) -> tuple[object, ...]:
    return node.op_type, *(None if port is None else port.desc.dtype for port in node.inputs)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
