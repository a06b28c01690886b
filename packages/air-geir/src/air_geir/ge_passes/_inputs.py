"""Passes over graph inputs: sizes given as one vector, inputs nobody reads."""

from __future__ import annotations

from dataclasses import dataclass

from air_geir.ge_passes._pass import PassResult, bindings_of, rebind
from air_geir.ir import DataType, Dim, Node, Placement, Port, TensorDesc
from air_geir.program import Program, SymInput, SymPackInput


@dataclass(frozen=True)
class PackSizes:
    """A Pack of sizes that are known outside the graph becomes one input: a vector on the host.

    Packs of the same sizes share the input. A Pack along another axis than 0 of scalars is the same vector.
    """

    name: str = "pack_sizes"

    def __call__(self, program: Program) -> PassResult:
        """Replace every such Pack."""
        graph = program.graph
        bindings = bindings_of(program)
        shared: dict[tuple[Dim, ...], Port] = {}
        changed = 0
        for node in graph.of_type("Pack"):
            sizes = [bindings.get(p.node) if p is not None else None for p in node.inputs]
            values = tuple(s.value for s in sizes if isinstance(s, SymInput))
            if not values or len(values) != len(sizes) or not _is_int64(node):
                continue
            if values not in shared:
                shared[values] = self._input(program, values, node)
                bindings[shared[values].node] = SymPackInput(values)
            node.output.replace_uses(shared[values])
            if node.is_dead:
                node.erase()
            changed += 1
        if changed:
            rebind(program, bindings)
        return PassResult(changed)

    def _input(self, program: Program, values: tuple[Dim, ...], node: Node) -> Port:
        desc = TensorDesc(DataType.INT64, (len(values),), placement=Placement.HOST)
        first = next(iter(program.graph))
        with program.graph.inserting_before(first), program.graph.origin_of(node.origin):
            return program.graph.data("sizes", desc)


def _is_int64(node: Node) -> bool:
    return all(p is not None and p.desc.dtype is DataType.INT64 for p in node.inputs)


@dataclass(frozen=True)
class DropUnusedInputs:
    """Inputs that nobody reads are removed; the others are numbered without gaps."""

    name: str = "drop_unused_inputs"

    def __call__(self, program: Program) -> PassResult:
        """Remove dead nodes, then dead inputs."""
        changed = program.graph.erase_dead()
        bindings = bindings_of(program)
        for node in program.graph.inputs:
            if not node.output.uses:
                for waiting in node.control_outputs:
                    waiting.drop_control(node)
                node.erase()
                changed += 1
        rebind(program, bindings)
        return PassResult(changed)
