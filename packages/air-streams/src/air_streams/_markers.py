"""What a graph records for code outside: tagged events, and markers that leave it, which become such events.

marker = ops.record()             record(); event_record("marker ...")      the event outside is recorded when the
torch._dynamo.graph_break()   ->  return empty                              graph has been started
ops.wait([marker])                waits for what the graph is given: for all such events
"""

from __future__ import annotations

import torch
from torch import fx

from air_streams import _events, _library


def let_markers_out(graph: fx.Graph) -> None:
    """Gives each marker that is more than waited for an event outside, and lets an empty tensor stand for it."""
    for node in list(graph.nodes):
        if node.target not in (_library.RECORD, _library.RECORD.overloadpacket):
            continue
        others = [user for user in node.users if not _is_wait(user)]
        if not others:
            continue
        with graph.inserting_after(node):
            empty = graph.call_function(torch.empty, (0,))
            event = graph.call_function(_library.EVENT_RECORD, (_events.new_marker(),))
        for made in (empty, event):
            made.meta["stack_trace"] = node.meta.get("stack_trace")
        empty.meta["example_value"] = node.meta.get("example_value")
        for user in others:
            user.replace_input_with(node, empty)


def note_records(graph: fx.Graph) -> None:
    """Notes which tagged events a graph records, for those who find a wait in another one."""
    for node in graph.nodes:
        if node.target in (_library.EVENT_RECORD, _library.EVENT_RECORD.overloadpacket):
            _events.note_record(str(node.args[0]))


def _is_wait(node: fx.Node) -> bool:
    return node.target in (_library.WAIT, _library.WAIT.overloadpacket)
