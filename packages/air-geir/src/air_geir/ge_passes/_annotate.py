"""What an engine needs to know about the whole graph, as attributes of the graph."""

from __future__ import annotations

from dataclasses import dataclass

from air_geir.errors import EngineError
from air_geir.ge_passes._pass import PassResult
from air_geir.ir import Attr, AttrKind, DataType, Placement
from air_geir.program import Program


@dataclass(frozen=True)
class Annotate:
    """Writes where the inputs live, the types of the outputs, and which executor runs the graph."""

    executor: Placement = Placement.DEVICE
    name: str = "annotate"

    def __call__(self, program: Program) -> PassResult:
        """Set the attributes; every output needs a type by now."""
        for port in program.graph.outputs:
            if port.desc.dtype is DataType.UNDEFINED:
                raise EngineError(
                    f"the type of output {port.key} is not known",
                    where=str(port.node.origin or port.node.name),
                    advice="give the description of the outputs when adding the node",
                )
        attrs = program.graph.attrs
        attrs["_input_placements"] = Attr.of(AttrKind.LIST_INT, [int(p) for p in program.input_placements])
        attrs["_output_dtypes"] = Attr.of(AttrKind.LIST_INT, [d.api for d in program.output_dtypes])
        attrs["_executor_type"] = Attr.of(AttrKind.INT, int(self.executor))
        return PassResult(1)
