"""Transposed weights of quantised and of grouped matrix products: the product transposes by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from air_geir.ge_passes._pass import PassResult, Refusal, constant_ints, refusal, result_of
from air_geir.ir import Graph, Node, Port
from air_geir.program import Program, keeps_its_value


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product with an attribute that transposes its weight (and with it the scale of the weight)."""

    weight: str
    scale: str
    flag: str


PRODUCTS: Mapping[str, Product] = {
    "GroupedMatmul": Product("weight", "scale", "transpose_weight"),
    "QuantBatchMatmulV4": Product("x2", "x2_scale", "transpose_x2"),
    "GroupedMatmulFinalizeRouting": Product("w", "scale", "transpose_w"),
}


@dataclass(frozen=True)
class TransposeInProduct:
    """Where weight and scale are both Bitcast(Transpose(x)), the product transposes instead.

    Other readers of the transposed values keep them; only swaps of the last two dims count.
    """

    name: str = "transpose_in_product"

    def __call__(self, program: Program) -> PassResult:
        """Set the flag wherever both operands allow it."""
        return result_of(
            _absorb(program.graph, node, PRODUCTS[node.op_type]) for node in program.graph.of_type(*PRODUCTS)
        )


def _absorb(graph: Graph, node: Node, product: Product) -> bool | Refusal:
    scales = [s for s in range(*node.slots_of(product.scale)) if not _is_empty(node.inputs[s])]
    slots = [*range(*node.slots_of(product.weight)), *scales]
    values = [node.inputs[s] for s in slots]
    if not scales and _absorb_plain(node, slots, product):
        return True
    chains = [_transposed_bitcast(v) for v in values]
    if all(c == NO_TRANSPOSE for c in chains):
        return False
    if node.attr(product.flag):
        return refusal(f"{product.flag} is already set", node)
    for chain, value in zip(chains, values, strict=True):
        if isinstance(chain, str):
            return refusal(f"{value.key if value else 'an operand'}: {chain}", node)
    for slot, value, source in zip(slots, values, chains, strict=True):
        assert value is not None
        assert isinstance(source, Port)
        node.set_input(slot, _bitcast_before(graph, node, value.node, source))
    _set_flag(node, product, values)
    return True


def _is_empty(value: Port | None) -> bool:
    """A list that is not given holds a tensor without elements."""
    return value is not None and value.desc.numel == 0


def _absorb_plain(node: Node, slots: Sequence[int], product: Product) -> bool:
    """Weights without a scale, as they come: Transpose(x)."""
    values = [value for s in slots if (value := node.inputs[s]) is not None]
    sources = [_transposed(value) for value in values]
    if not sources or node.attr(product.flag) or not all(isinstance(source, Port) for source in sources):
        return False
    for slot, source in zip(slots, sources, strict=True):
        assert isinstance(source, Port)
        node.set_input(slot, source)
    _set_flag(node, product, values)
    return True


def _set_flag(node: Node, product: Product, unused: Sequence[Port | None]) -> None:
    node.set_attr(product.flag, True)
    for value in unused:
        if value is not None:
            _erase_unused(value.node)


@dataclass(frozen=True)
class TransposeAfterBitcast:
    """The weight of QuantBatchMatmulV3 as Bitcast(Transpose(x)) becomes Transpose(Bitcast(x)), which the product
    can take in."""

    name: str = "transpose_after_bitcast"

    def __call__(self, program: Program) -> PassResult:
        """Swap the two wherever they feed the weight."""
        return result_of(_swap(program.graph, node) for node in program.graph.of_type("QuantBatchMatmulV3"))


def _swap(graph: Graph, node: Node) -> bool | Refusal:
    value = node.input("x2")
    source = _transposed_bitcast(value)
    if isinstance(source, str):
        is_bitcast = value is not None and value.node.op_type == "Bitcast"
        return refusal(source, node) if is_bitcast and source != NO_TRANSPOSE else False
    assert value is not None
    cast = _bitcast_before(graph, node, value.node, source)
    transpose = value.node.inputs[0]
    assert transpose is not None
    with graph.inserting_before(node):
        again = graph.add("Transpose", cast, transpose.node.inputs[1], outputs=value.desc)
    node.set_input(node.slots_of("x2")[0], again)
    _erase_unused(value.node)
    return True


NO_TRANSPOSE = "is not a bitcast of a transposed value"


def _transposed_bitcast(value: Port | None) -> Port | str:
    """The value before Transpose and Bitcast, or why it is not of that form."""
    if value is None or value.node.op_type != "Bitcast":
        return NO_TRANSPOSE
    source = _transposed(value.node.inputs[0])
    if isinstance(source, str):
        return source
    if source.desc.dtype.bits != value.desc.dtype.bits:
        return (
            f"the bitcast changes the width of elements, {source.desc.dtype.name} to {value.desc.dtype.name}"
        )
    return source


def _transposed(value: Port | None) -> Port | str:
    """The value before a swap of the last two dims, or why it is not of that form."""
    if value is None or value.node.op_type != "Transpose":
        return NO_TRANSPOSE
    source, perm = value.node.inputs
    order = constant_ints(perm)
    if source is None or order is None:
        return "the permutation is not known at compile time"
    if order != [*range(len(order) - 2), len(order) - 1, len(order) - 2]:
        return f"permutation {order} is not a swap of the last two dims"
    if not keeps_its_value(source):
        return "the graph writes what is transposed"
    return source


def _bitcast_before(graph: Graph, node: Node, old: Node, source: Port) -> Node:
    attrs = {key: attr.value for key, attr in old.attrs.items()}
    desc = source.desc.with_dtype(old.output.desc.dtype)
    with graph.inserting_before(node), graph.origin_of(old.origin):
        return graph.add("Bitcast", source, attrs=attrs, outputs=desc)


def _erase_unused(node: Node) -> None:
    pending = [node]
    while pending:
        current = pending.pop()
        if current.graph is not None and current.is_dead and not current.is_input:
            before = [p.node for p in current.inputs if p is not None]
            current.erase()
            pending.extend(before)
