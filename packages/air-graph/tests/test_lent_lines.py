"""The line of a user's program that stands for a graph of nothing but a wrapper's operators."""

from __future__ import annotations

import torch
from torch import fx

from air_graph import lend_lines, source_of

WRAPPER = 'File "/site-packages/air_streams/ops.py", line 45, in npu_tagged_event_wait\n    torch.ops.x(_key(event))'
PROGRAM = 'File "/programs/model.py", line 7, in forward\n    y = x + 1'


def graph_of(*traces: str) -> fx.Graph:
    graph = fx.Graph()
    for trace in traces:
        graph.call_function(torch.relu, ()).meta["stack_trace"] = trace
    return graph


def test_the_nodes_of_a_wrapper_alone_get_the_line_that_called_it() -> None:
    graph = graph_of(WRAPPER, WRAPPER)
    lend_lines(graph)
    lines = [source_of(node) for node in graph.nodes]
    assert all(
        line is not None and line.file == __file__ and line.code == "lend_lines(graph)" for line in lines
    )


def test_a_graph_in_which_a_line_of_the_program_is_known_keeps_its_traces() -> None:
    graph = graph_of(WRAPPER, PROGRAM)
    lend_lines(graph)
    assert [node.meta["stack_trace"] for node in graph.nodes] == [WRAPPER, PROGRAM]
