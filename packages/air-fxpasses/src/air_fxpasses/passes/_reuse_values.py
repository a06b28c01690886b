"""Computes a value once where the graph computes it several times, as each layer does with a mask that all of them use.

    a = where(mask, 0, -inf)              a = where(mask, 0, -inf)
    y = attention(q, k, v, a)             y = attention(q, k, v, a)
    b = where(mask, 0, -inf)       ->
    z = attention(y, k, v, b)             z = attention(y, k, v, a)

The later one goes where it is the same operator of the same arguments on the same stream, nothing is written to them in
between, and nobody writes, or is given, the value that goes. Random draws and plain copies stay. So does what would be
kept for long: a large value costs more memory than it saves time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from air_fxpasses._facts import Facts
from air_fxpasses._pass import Pass, PassResult, tried
from air_fxpasses._refusal import Refusal
from air_fxpasses._returned import returned_by
from air_graph import bytes_of, draws_random_numbers, effects_of_node

aten = torch.ops.aten

_KEPT_BYTES: Final = 32 << 20
"""A value of more stays as often as it is computed; views are of any size."""
_COPIES: Final = frozenset({aten.clone.default, aten.lift_fresh_copy.default, aten.copy.default})
"""Operators that make memory to be written: each has its own."""
_CONSTANTS: Final = (
    int, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip


@dataclass(frozen=True)
class ReuseValues(Pass):
    """Uses the first of several equal values in the place of the later ones."""

    name: ClassVar[str] = "reuse_values"
    option: ClassVar[str] = "air.reuse_values"

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        first: dict[Hashable, Node] = {}

        def reused(node: Node) -> bool | Refusal | None:
            key = _key(node) if _may_go(facts, node) else None
            earlier = node if key is None else first.setdefault(key, node)
            if key is None or earlier is node:
                return None
            refusal = _why_not(facts, earlier, node)
            if refusal is not None:
                first[key] = node
                return refusal
            facts.replace(node, earlier)
            return True

        return tried(gm.graph.nodes, reused, "values taken from where they were computed before")


def _may_go(facts: Facts, node: Node) -> bool:
    """Whether the node computes one tensor of its arguments, and does nothing else."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, OpOverload) or node.is_impure():
        return False
    if target.namespace not in ("aten", "prims") or target in _COPIES or "unbacked_bindings" in node.meta:
        return False
    effects = effects_of_node(node)
    if target._schema.is_mutable or effects.hides_writes or effects.is_unsure:
        return False
    if draws_random_numbers(node):
        return False
    value = facts.tensor(node)
    return value is not None and (bool(node.all_input_nodes) or _is_one_number(value))


def _is_one_number(value: Tensor) -> bool:
    """Whether memory made from nothing is only a number; more of it is mostly there to be written."""
    return not value.dim()


def _key(node: Node) -> Hashable | None:
    """What two nodes have in common that compute the same; None where that cannot be told."""
    try:
        return node.target, _frozen(node.args), _frozen(node.kwargs)
    except TypeError:
        return None


def _frozen(value: Any) -> Hashable:
    if isinstance(value, Node):
        return value
    if isinstance(value, Mapping):
        return tuple((name, _frozen(value[name])) for name in sorted(value))
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    if isinstance(value, (float, complex)):
        return type(value), repr(value)  # 0.0 is not -0.0
    if isinstance(value, _CONSTANTS):
        return type(value), value  # 1 is not True
    raise TypeError(type(value).__name__)


def _why_not(facts: Facts, earlier: Node, node: Node) -> Refusal | None:
    if not facts.on_one_stream(earlier, node):
        return Refusal.of("it is computed on another stream", node, earlier)
    if (output := returned_by(node)) is not None:
        return Refusal.of("it is returned as a tensor of its own", node, output)
    if facts.storage(node) == facts.storage(earlier):
        return None  # a view: whatever is written, both show it
    if bytes_of(facts.value(node)) > _KEPT_BYTES:
        return Refusal.of(f"it is large (over {_KEPT_BYTES >> 20} MiB), and would be kept for long", node)
    return _changed(facts, earlier, node)


def _changed(facts: Facts, earlier: Node, node: Node) -> Refusal | None:
    """Who may write what two nodes have computed, or between them what they computed it of."""
    for one in (earlier, node, *node.all_input_nodes):
        if facts.storage(one) is None and isinstance(facts.value(one), (Tensor, list, tuple)):
            return Refusal.of("it is not known who writes its memory, or that of an argument", node, one)
        if (keeper := facts.pinned_by(facts.storage(one))) is not None:
            return Refusal.of("an operator without a schema may keep or change its memory", node, keeper)
    written = (*_writes(facts, earlier), *_writes(facts, node))
    if written:
        return Refusal.of("its memory is written", node, written[0])
    for source in node.all_input_nodes:
        write = facts.written_between(facts.storage(source), earlier, node)
        if write is not None:
            return Refusal.of("its argument is written in between", node, write)
    return None


def _writes(facts: Facts, node: Node) -> Iterator[Node]:
    """Who writes the memory that a value lies in."""
    return (touch.node for touch in facts.touches(facts.storage(node)) if touch.writes)
