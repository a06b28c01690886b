"""Passes over in-place updates: copies that protect nothing, and results written where they belong."""

from __future__ import annotations

from dataclasses import dataclass

from air_geir.ge_passes._pass import PassResult, Refusal, bindings_of, refusal, result_of
from air_geir.ge_passes._side_effects import SIDE_EFFECTS
from air_geir.ir import Node, Port
from air_geir.program import ArgInput, GraphOutput, InputBinding, Program, is_written

COPIES = frozenset({"TensorMove", "Identity"})


@dataclass(frozen=True)
class DropCopies:
    """Drops copies of computed values where nothing writes to either and at most one of them is a result."""

    name: str = "drop_copies"

    def __call__(self, program: Program) -> PassResult:
        """Let the readers of such copies read the original."""
        end = program.graph.net_output
        changed = 0
        for node in program.graph.of_type(*COPIES):
            source = node.inputs[0]
            if (
                source is None
                or source.node.is_input
                or source.node.op_type == "Const"
                or not _is_plain(node)
            ):
                continue
            if is_written(source) or is_written(node.output):
                continue
            if end in node.output.users and end in source.users:
                continue
            node.output.replace_uses(source)
            node.erase()
            changed += 1
        return PassResult(changed)


def _is_plain(node: Node) -> bool:
    """True when the copy is in no explicit order, and its result has the type of its source."""
    source = node.inputs[0]
    alike = source is not None and source.desc.dtype is node.output.desc.dtype
    return alike and not node.control_inputs and not node.control_outputs


@dataclass(frozen=True)
class WriteWithoutCopy:
    """Input -> TensorMove -> in-place operator -> Assign to the same input: the operator writes the input itself.

    Which operators write in place follows from their prototypes (an output named like an input). The copy goes only
    when nothing else reads the input, so that the change cannot be seen.
    """

    name: str = "write_without_copy"

    def __call__(self, program: Program) -> PassResult:
        """Drop every copy that protects nothing."""
        return result_of(
            self._drop_copy(node, output, slot)
            for node in program.graph
            for output, slot in _written_slots(node)
        )

    def _drop_copy(self, node: Node, output: Port, slot: int) -> bool | Refusal:
        copy = node.inputs[slot]
        if copy is None or copy.node.op_type not in COPIES:
            return False
        source = copy.node.inputs[0]
        if source is None or not source.node.is_input:
            return False
        assigns = [u for u, _ in output.uses if u.op_type == "Assign" and u.inputs[0] is source]
        if not assigns:
            return False
        if copy.num_uses != 1:
            return refusal("the protective copy is read elsewhere too", copy.node)
        readers = [u for u in source.users if u is not copy.node and u not in assigns]
        others = [u.name for u in readers if not _is_in_vain(u)]
        if others or len(assigns) != 1:
            return refusal(
                f"the old value of {source.node.name} is read by {', '.join(others) or 'Assign'}", node
            )
        if copy.node.control_inputs or copy.node.control_outputs:
            return refusal("the protective copy takes part in an explicit order", copy.node)
        node.set_input(slot, source)
        copy.node.erase()
        return True


def _is_in_vain(node: Node, depth: int = 8) -> bool:
    """True when nobody needs what it computes: `x[2:4] = v` reads a slice that it then forgets."""
    acts = node.prototype is None or node.prototype.refs or node.subgraphs or "group" in node.attrs
    if acts or not node.outputs or node.control_outputs or not depth:
        return False
    return all(_is_in_vain(user, depth - 1) for port in node.outputs for user in port.users)


def _written_slots(node: Node) -> list[tuple[Port, int]]:
    """Outputs of an in-place operator with the input slot each of them overwrites."""
    if node.prototype is None or node.op_type == "Assign":
        return []
    found: list[tuple[Port, int]] = []
    for output, name in node.prototype.refs.items():
        start, stop = node.slots_of(name)
        ports = [p for p in node.outputs if p.name == output or p.name.rstrip("0123456789") == output]
        found.extend(zip(ports, range(start, stop), strict=False))
    return found


@dataclass(frozen=True)
class AssignToOutput:
    """Assign(input, value): the value becomes a graph output that is written into the input's memory.

    Assigns to anything else stay, and are kept alive by a control edge to the output.
    """

    name: str = "assign_to_output"

    def __call__(self, program: Program) -> PassResult:
        """Turn every Assign to an input into a tied output."""
        bindings = bindings_of(program)
        place = {node: i for i, node in enumerate(program.graph)}
        return result_of(
            self._tied(program, node, bindings, place) for node in program.graph.of_type("Assign")
        )

    def _tied(
        self, program: Program, node: Node, bindings: dict[Node, InputBinding], place: dict[Node, int]
    ) -> bool | Refusal:
        target, value = node.inputs
        binding = bindings.get(target.node) if target is not None else None
        if target is None or value is None:
            reason = "an input of Assign is not fed"
        elif not isinstance(binding, ArgInput):
            reason = f"{target.node.name} is not a tensor of the caller"
        elif not (reason := self._obstacle(program, node, target, value, place)):
            self._tie(program, node, value, binding)
            return True
        _keep(program, node, place)
        return refusal(reason, node)

    def _obstacle(
        self, program: Program, node: Node, target: Port, value: Port, place: dict[Node, int]
    ) -> str:
        """Why the value cannot be an output; empty where it can."""
        if sum(u.op_type == "Assign" and u.inputs[0] is target for u in target.users) > 1:
            return f"{target.node.name} is written more than once"
        if target.desc.dtype is not value.desc.dtype:
            return f"the value is {value.desc}, the input {target.desc}"
        end = program.graph.net_output
        late = [u.name for u in target.users if place.get(u, 0) > place[node] and u is not end]
        if late:
            return f"the new value is read through the input by {', '.join(late)}"
        watching = [u.name for u in target.users if u.op_type in SIDE_EFFECTS]
        return f"{', '.join(watching)} must see the old value" if watching else ""

    def _tie(self, program: Program, node: Node, value: Port, binding: ArgInput) -> None:
        index = _output_index(program, value, node)
        node.output.replace_uses(value)
        for other in node.control_outputs:
            other.drop_control(node)
            if other is not value.node:
                other.run_after(value)
        node.erase()
        program.assigned[index] = binding.arg
        if not binding.contiguous:
            program.strided.add(binding.arg)


def _keep(program: Program, node: Node, place: dict[Node, int]) -> None:
    """Orders an Assign that stays: after the readers before it, before those behind it and the end of the graph."""
    end = program.graph.net_output
    end.run_after(node)
    target = node.inputs[0]
    for user in target.users if target is not None else ():
        if user in (node, end):
            continue
        if place.get(user, 0) < place[node]:
            node.run_after(user)
        else:
            user.run_after(node)


def _output_index(program: Program, value: Port, assign: Node) -> int:
    """The position of a value among the outputs, added at the end when it is not there or already tied.

    Inputs, values that are tied elsewhere, and values whose Assign had to wait for something are copied first. Where
    the caller also gets the value as a result, that is a copy, which later writes do not change.
    """
    graph = program.graph
    end = graph.net_output
    places = [i for i, port in enumerate(end.inputs) if port is value]
    moved = value.node.is_input or assign.control_inputs
    if moved or any(i in program.assigned for i in places):
        with graph.inserting_before(assign), graph.origin_of(assign.origin):
            value = graph.add("TensorMove", value, outputs=value.desc, control=assign.control_inputs).output
    elif places:
        given = _given(program)
        free = [i for i in places if i not in given]
        if free:
            return free[0]
        with graph.inserting_before(assign), graph.origin_of(assign.origin):
            copy = graph.add("TensorMove", value, outputs=value.desc).output
        for i in places:
            end.set_input(i, copy)
    return graph.append_output(value)


def _given(program: Program) -> set[int]:
    """Outputs that the caller gets: as they are, as the base of views, or as a size."""
    sources = [*program.outputs, *(step.source for step in program.after)]
    found = {source.index for source in sources if isinstance(source, GraphOutput)}
    return found | {source.arg for source in program.symbols.values() if source.computed}
