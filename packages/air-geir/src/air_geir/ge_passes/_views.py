"""Chains of views: one operator where a model wrote several."""

from __future__ import annotations

from dataclasses import dataclass

from air_geir.ge_passes._pass import PassResult, constant_ints
from air_geir.ir import Node, Port
from air_geir.program import Program, keeps_its_value


@dataclass(frozen=True)
class FoldViews:
    """A reshape of a reshape, and a transpose of a transpose, read what the first one read.

    The first stays where others read it. A value that the graph writes is never read later than before. Operators in an
    explicit order or with attributes of a scope are left alone, and so are transposes whose order is computed.
    """

    name: str = "fold_views"

    def __call__(self, program: Program) -> PassResult:
        """Go through the graph in order, so that whole chains fold."""
        changed = 0
        for node in list(program.graph):
            if node.graph is None or not _is_plain(node):
                continue
            first = node.inputs[0]
            if first is None or first.node.op_type != node.op_type or not _is_plain(first.node):
                continue
            if not keeps_its_value(_source(first.node)):
                continue
            changed += _fold_reshape(node) if node.op_type == "Reshape" else _fold_transpose(node)
        return PassResult(changed)


def _is_plain(node: Node) -> bool:
    if node.op_type not in ("Reshape", "Transpose") or node.prototype is None:
        return False
    own = {key for key in node.attrs if key in node.prototype.attr}
    ordered = node.control_inputs or node.control_outputs
    return not ordered and set(node.attrs) == own and not own


def _source(node: Node) -> Port:
    port = node.inputs[0]
    assert port is not None, "a required input"
    return port


def _fold_reshape(node: Node) -> bool:
    first = _source(node).node
    node.set_input(0, _source(first))
    if first.is_dead:
        first.erase()
    return True


def _fold_transpose(node: Node) -> bool:
    first = _source(node).node
    inner, outer = constant_ints(first.inputs[1]), constant_ints(node.inputs[1])
    if inner is None or outer is None:
        return False
    order = [inner[axis] for axis in outer]
    if order == sorted(order):
        if node.graph is None or node.graph.net_output in node.output.users:
            return False
        node.output.replace_uses(_source(first))
        node.erase()
    else:
        graph = node.graph
        assert graph is not None, "checked by the caller"
        with graph.inserting_before(node):
            perm = graph.const(order)
        node.set_input(0, _source(first))
        node.set_input(1, perm)
    if first.is_dead:
        first.erase()
    return True
