"""Stream code beside a checkpoint that is trained: torch computes no part of a graph again that has such code in it.

So all of it is taken out, and the graph runs on one stream, in the order of the program. What it ordered stays ordered:
the call waits for what came from before, and what the graph recorded is recorded outside when it has been started.
"""

from __future__ import annotations

from typing import Any

from torch import fx

from air_graph import place_of, source_of, warn_at
from air_streams import _events, _library
from air_streams._bodies import is_trained_checkpoint
from air_streams._outside import Awaited
from air_streams.errors import ScopeIgnored


def take_out_beside_checkpoints(graph: fx.Graph) -> Awaited:
    """Takes the stream code out of a graph with a checkpoint that is trained; what is left to order around it."""
    checkpoint = next((node for node in graph.nodes if is_trained_checkpoint(node)), None)
    found = [node for node in graph.nodes if _op(node) in _library.STREAM_OPS]
    if checkpoint is None or not found:
        return Awaited()
    recorded: dict[str, None] = {}
    awaited: dict[str, None] = {}
    for node in found:
        if _op(node) is _library.EVENT_RECORD:
            recorded[str(node.args[0])] = None
        elif _op(node) is _library.EVENT_WAIT and node.args[0] not in recorded:
            awaited[str(node.args[0])] = None
    given = any(_op(node) is _library.WAIT for node in found)
    text = (
        "streams, events and core limits of this graph are ignored: a checkpoint in it is trained, and torch computes "
        f"nothing again beside them; it runs on one stream in the order of the program\n  at {place_of(found[0])}"
    )
    warn_at(source_of(found[0]), ScopeIgnored(text), "air_streams")
    for node in reversed(found):
        graph.erase_node(node)
    outside = tuple(filter(_events.is_outside, recorded))
    return Awaited(tuple(filter(_events.is_outside, awaited)), given, outside)


def _op(node: fx.Node) -> Any:
    return getattr(node.target, "default", node.target) if node.op == "call_function" else None
