"""Which nodes of a graph cannot be part of a capture, and why: what the host must see, and what was registered.

    nonzero, unique         the shape of the result depends on the data
    item, equal             the host waits for a value
    x.cpu(), cpu.to(npu)    memory of the host, on a device: a capture would freeze what was in it
    x.to_sparse()           no piece of memory (`air_graph.no_memory`), as little as a tensor on `meta`
    x[mask] = v             on a device the host counts the mask first
    _npu_dropout_gen_mask   torch_npu runs it on a second stream, unless it is told not to
    normal(mean, std)       torch_npu launches nothing for it inside a capture
    cond, while_loop        on a device the host looks at the predicate (`_decisions`), unless it is a conditional node
    your::op(x, object)     on a device the host reads the object, whose state may be another (`_objects`)
    your::op                `register_uncapturable`, or a capture that failed there before

An executor that meets one of them inside a capture refuses it; a compiler that asks before cuts the graph there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from air_aclgraph._conditions import is_conditional_node
from air_aclgraph._decisions import decision
from air_aclgraph._objects import why_frozen
from air_aclgraph._slots import STAGING
from air_aclgraph.errors import IllegalDuringCapture
from air_fxpasses.tables import updatable_of
from air_graph import (
    example_tensors,
    is_in_both,
    is_made_anew,
    is_on_host,
    name_of,
    no_memory,
    operator_of,
    place_of,
    qualified,
    source_of,
    unknown_ranks,
    written_inputs,
)
from air_graph.pieces import LeftOut
from air_streams import STREAM_OPS

aten = torch.ops.aten

_TAGS: Final = {
    torch.Tag.data_dependent_output: "the host has to wait for a value that the device computes",
    torch.Tag.dynamic_output_shape: "the shape of its result depends on the data",
}
_OWN: Final = "the host runs it, and its result may be another in each call"
_MOVES_STORAGE: Final = frozenset(
    (
        "aten::set_",
        "aten::set_data",
        "aten::resize_",
        "aten::resize_as_",
        "aten::resize_as_sparse_",
        "aten::_resize_output_",
        "inductor::resize_storage_bytes_",
    )
)
_QUANTISED: Final = frozenset(
    (
        "aten::quantize_per_tensor",
        "aten::quantize_per_tensor_dynamic",
        "aten::quantize_per_channel",
        "aten::dequantize",
        "aten::int_repr",
    )
)
MASKED_WRITES: Final = frozenset(
    {aten.index_put.default, aten.index_put_.default, aten._unsafe_index_put.default}
)
Types = tuple[torch.dtype, ...]
#: Operator -> the types of the tensors that it is given, or None where all are meant -> the reason.
_registered: Final[dict[str, dict[Types | None, str]]] = {}


def register_uncapturable(
    operator: str | OpOverload | HigherOrderOperator,
    reason: str = "it was registered as uncapturable",
    types: Types | None = None,
) -> None:
    """Declares that an operator (`"ns::op.overload"`) cannot be captured: graphs are cut round it.

    With `types` it is only where the tensors that it is given, each counted once, are of these types, in this order.
    """
    _registered.setdefault(_name(operator), {})[types] = reason


def unregister_uncapturable(
    operator: str | OpOverload | HigherOrderOperator, types: Types | None = None
) -> None:
    """Takes back a declaration, or what a failed capture taught: all of it, or what it is for these types."""
    name = _name(operator)
    if types is None:
        _registered.pop(name, None)
    else:
        _registered.get(name, {}).pop(types, None)


def types_given(node: Node) -> Types:
    """The types of the tensors that a node is given, each counted once."""
    return tuple(value.dtype for given in node.all_input_nodes for value in example_tensors(given))


def _name(operator: str | OpOverload | HigherOrderOperator) -> str:
    if isinstance(operator, HigherOrderOperator):
        return f"higher_order::{operator.name()}.default"
    if isinstance(operator, OpOverload):
        return name_of(operator)
    return qualified(operator, "uncapturable operators")


def why_registered(node: Node) -> tuple[OpOverload | HigherOrderOperator, str] | None:
    """The operator of a node that was registered, and why."""
    called = operator_of(node)
    operator = node.target if called is None else called[0]
    if not isinstance(operator, (OpOverload, HigherOrderOperator)):
        return None
    reasons = _registered.get(_name(operator))
    if not reasons:
        return None
    reason = reasons.get(None) or reasons.get(types_given(node))
    return None if reason is None else (operator, reason)


def registered_uncapturable() -> dict[str, str]:
    """Every operator that was registered, or learned from a capture that failed there, with the reason."""
    return {
        name if types is None else f"{name} of {', '.join(map(str, types))}": reason
        for name, reasons in _registered.items()
        for types, reason in reasons.items()
    }


def refuse_registered(gm: GraphModule) -> None:
    """Raises for an operator that was registered: its author knows what a capture cannot see."""
    for node in gm.graph.nodes:
        if (found := why_registered(node)) is not None:
            raise IllegalDuringCapture.of(*found, source_of(node))


def refuse_no_memory(gm: GraphModule) -> None:
    """Raises for values that no capture can hold: tensors on `meta`, and sparse ones."""
    for node in gm.graph.nodes:
        if (why := no_memory(node)) is not None:
            raise IllegalDuringCapture.of(node.target, why, source_of(node))


def refuse_made_anew(gm: GraphModule) -> None:
    """Raises for what a capture would freeze: random numbers of the host, and what its operators look up."""
    for node in gm.graph.nodes:
        if is_made_anew(node):
            raise IllegalDuringCapture.of(node.target, _OWN, source_of(node))


def why_illegal(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Why no capture on any runtime can hold this call; the arguments are values, real or fake."""
    for tag, reason in _TAGS.items():
        if tag in op.tags and not _is_sized(op, args, kwargs):
            return reason
    if op._schema.name in _MOVES_STORAGE:
        return "it gives a tensor other memory than the one recorded"
    if op._schema.name in _QUANTISED:
        return "a quantised tensor is memory with a scale, which would be that of the capture"
    return None


def _is_sized(op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether sizes decide the shape of this call: indexing without a mask, repeating to a size that is said."""
    if op is aten.repeat_interleave.Tensor:
        return kwargs.get("output_size") is not None
    return op is aten.index.Tensor and not _has_mask(args[1])


def _has_mask(indices: Sequence[Any]) -> bool:
    return any(isinstance(t, Tensor) and t.dtype in (torch.bool, torch.uint8) for t in indices)


def uncapturable(gm: GraphModule, device: torch.device) -> dict[Node, LeftOut]:
    """The nodes of a graph that cannot be captured on a device, with what leads to and from them on the host."""
    found: dict[Node, LeftOut] = {}
    for node in gm.graph.nodes:
        if (why := no_memory(node)) is not None:
            found[node] = _entry(node, why)
            continue
        called = operator_of(node)
        if (registered := why_registered(node)) is not None:
            found[node] = LeftOut(node.name, str(registered[0]), registered[1], place_of(node))
        elif called is not None and (reason := _reason(node, *called, device)) is not None:
            found[node] = LeftOut(node.name, str(called[0]), reason, place_of(node))
        elif is_conditional_node(node, device, uncapturable):
            continue
        elif (decided := decision(node, device.type)) is not None:
            place = str(decided.where) if decided.where else None
            found[node] = LeftOut(node.name, decided.operator, decided.reason, place)
    for node, reason in unknown_ranks(gm).items():
        found.setdefault(node, _entry(node, reason))
    if device.type != "cpu":
        _add_host_parts(gm, found)
    return found


def _entry(node: Node, reason: str) -> LeftOut:
    return LeftOut(node.name, str(node.target), reason, place_of(node))


def _reason(node: Node, op: OpOverload, at: int, device: torch.device) -> str | None:
    """Why the operator of a node, whose arguments begin `at`, cannot be captured."""
    args: tuple[Any, ...] = map_arg(node.args[at:], lambda n: n.meta.get("val"))
    if (why := why_illegal(op, args, node.kwargs)) is not None or device.type == "cpu":
        return why
    if op._schema.name == "npu::_npu_dropout_gen_mask" and node.kwargs.get("parallel", True) is not False:
        return "torch_npu runs it on a stream of its own, which is no part of the capture"
    if op._schema.name == "aten::normal" and device.type == "npu":
        return (
            "torch_npu launches nothing for it inside a capture (in-place, empty.normal_(mean, std), it does)"
        )
    if getattr(torch.Tag, "cudagraph_unsafe", None) in op.tags:
        return "its author says that it cannot be part of a captured graph"
    if op in MASKED_WRITES and _has_mask(args[1]):
        return "a write through a mask: the host counts the mask first"
    return why_frozen(node)


# -- memory of the host, in a graph of a device


def _add_host_parts(gm: GraphModule, found: dict[Node, LeftOut]) -> None:
    """Copies between the host and the device, with what the host computes before and after them."""
    given = {node for node in gm.graph.find_nodes(op="placeholder") if _is_tensor_on_host(node)}
    given.update(node for node in written_inputs(gm) if is_on_host(node))
    for node in gm.graph.nodes:
        if node.op != "call_function" or node in found:
            continue
        if is_made_anew(node):
            found[node] = _entry(node, _OWN)
        elif copies_from_host(node):
            found[node] = _entry(node, "it copies to the device what the host has computed")
            _add_ancestors(node, found)
        elif (reason := _reason_on_host(node, given, found)) is not None:
            found[node] = _entry(node, reason)


def _reason_on_host(node: Node, given: Collection[Node], found: Collection[Node]) -> str | None:
    """Why a call that the host makes, or that reads memory of the host, cannot be captured."""
    sources = [n for n in node.all_input_nodes if example_tensors(n)]
    changes = any(n in found and is_on_host(n) for n in sources)
    is_read = any(n in given for n in sources)
    if is_on_host(node):
        if any(not is_on_host(n) for n in sources):
            return "it copies from the device to the host, which waits for it"
        if changes:
            return "the host computes it from what it has in each call"
        return "the host computes it from an input in its memory" if is_read else None
    if is_in_both(node):
        return "the host computes some of its results"
    if _takes_tensors_of_the_host(node):
        return None
    if is_read:
        return "it reads an input in the memory of the host"
    return "it reads a number that the host computes in each call" if changes else None


def _is_tensor_on_host(node: Node) -> bool:
    """Whether a value is a tensor in the memory of the host; a number there is part of the key."""
    return is_on_host(node) and bool(node.meta["val"].dim())


def _takes_tensors_of_the_host(node: Node) -> bool:
    """Whether such an input is staged on the device, or patched into a replay."""
    called = operator_of(node)
    return node.target in STAGING or (called is not None and updatable_of(called[0]) is not None)


def _add_ancestors(node: Node, found: dict[Node, LeftOut]) -> None:
    waiting = [n for n in node.all_input_nodes if _is_computed_on_host(n)]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found[one] = _entry(one, "the host computes it for the device")
            waiting.extend(n for n in one.all_input_nodes if _is_computed_on_host(n))


def _is_computed_on_host(node: Node) -> bool:
    return node.op == "call_function" and is_on_host(node)


def copies_from_host(node: Node) -> bool:
    """Whether a node moves what the host has computed to the device, rather than reading a number of it."""
    if node.op != "call_function" or is_on_host(node) or is_in_both(node):
        return False
    if node.target in STREAM_OPS:  # a marker is no more than a name for the capture
        return False
    if not any(_is_computed_on_host(n) for n in node.all_input_nodes):
        return False
    return node.target in STAGING or any(map(_is_tensor_on_host, node.all_input_nodes))
