"""Products with a transposed weight, which torch computes in one call of its own: `linear`.

    Transpose(w, (1, 0)) ─► MatMulV2(x, .., bias)        linear(x, w, bias)

The kernel is the one that eager models call, and a call of it costs the host less than a view and a product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from air_geir.ir import Graph, Node, Port
from air_geir.reference._aliases import Aliases
from air_geir.reference.kernels import kernel_for

_PRODUCTS: Final = ("MatMul", "MatMulV2")


@dataclass(frozen=True)
class Linear:
    """Which products are computed by `linear`."""

    weights: Mapping[Node, Port] = field(default_factory=dict)
    """Product -> the value whose transpose it multiplies by."""
    absorbed: frozenset[Node] = frozenset()
    """Transposes that nobody else reads."""

    @classmethod
    def of(cls, graph: Graph, aliases: Aliases) -> Linear:
        """Those whose weight is not written after it was transposed, and whose transpose nothing else needs."""
        written = _written(graph, aliases)
        found = {
            node: weight
            for node in graph.of_type(*_PRODUCTS)
            if _fits(node)
            and (weight := _transposed(node.input("x2"))) is not None
            and aliases.root(weight) not in written
        }
        results = set(graph.outputs)
        transposes = {node.input("x2") for node in found}
        alone = {port for port in transposes if port is not None and port not in results
                 and all(user in found and user.input("x1") != port for user in port.users)}  # fmt: skip
        kept = {node: weight for node, weight in found.items() if node.input("x2") in alone}
        return cls(kept, frozenset(port.node for port in alone))


def _fits(node: Node) -> bool:
    bias = node.input("bias")
    return (
        not node.attr("transpose_x1")
        and not node.attr("transpose_x2")
        and (node.op_type == "MatMul" or node.input("offset_w") is None)
        and _rank(node.input("x1")) == 2
        and (bias is None or _rank(bias) == 1)
    )


def _transposed(port: Port | None) -> Port | None:
    """What a value is the transpose of."""
    if port is None or port.node.op_type != "Transpose" or port.node.control_inputs:
        return None
    source, order = port.node.input("x"), port.node.input("perm")
    if source is None or order is None or order.node.op_type != "Const" or source.node.op_type == "Const":
        return None
    return source if order.node.attr("value").tensor().tolist() == [1, 0] else None


def _written(graph: Graph, aliases: Aliases) -> set[Port]:
    """The storages that some operator writes to."""
    found = set()
    for node in graph:
        kernel = kernel_for(node.op_type)
        for name in (kernel.writes if kernel else None) or {}:
            if (port := node.input(name)) is not None:
                found.add(aliases.root(port))
    return found


def _rank(port: Port | None) -> int | None:
    return None if port is None or port.desc.shape is None else len(port.desc.shape)
