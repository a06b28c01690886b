"""Inputs that the graph writes, told apart from those it only reads."""

from __future__ import annotations

from dataclasses import dataclass, replace

from air_geir.ge_passes._pass import PassResult
from air_geir.ir import Placement
from air_geir.program import Program, is_written


@dataclass(frozen=True)
class MarkReferences:
    """Inputs that the graph writes become RefData, which tells the loader that their memory changes."""

    name: str = "mark_references"

    def __call__(self, program: Program) -> PassResult:
        """Put a RefData in the place of every Data that an operator writes into."""
        graph = program.graph
        written = [node for node in graph.inputs if node.op_type == "Data" and is_written(node.output)]
        for node in written:
            desc = node.output.desc
            if desc.placement is None:
                desc = replace(desc, placement=Placement.DEVICE)
            with graph.inserting_before(node):
                new = graph.data(f"RefData_{node.name}", desc, int(node.attr("index")), op_type="RefData")
            new.node.set_attr("_origin_data_name", node.name)
            node.output.replace_uses(new)
            for waiting in node.control_outputs:
                waiting.drop_control(node)
            node.erase()
        return PassResult(len(written))
