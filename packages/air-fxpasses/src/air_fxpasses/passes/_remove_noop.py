"""Removes operators that give back what they were given.

    slice(x, 0, 0, len)   repeat(x, 1, 1)   pad(x, 0, 0)   _to_copy(x, same type)   ceil(int)   pow(x, 1)
    cat([x])   view(x, same size)   clone(x)   slice_scatter(base, whole)        ->        x

A view that names the same elements as its base can always go. An operator that copies may only go when the
copy and the original can be one: neither is written while the other is wanted, and the caller does not
receive memory that is also used elsewhere. `may_share` decides that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch
from torch.fx import GraphModule, Node

from air_fxpasses._facts import Facts
from air_fxpasses._pass import Pass, PassResult, tried
from air_fxpasses._refusal import Refusal
from air_fxpasses._returned import returned_by
from air_fxpasses._scatters import is_in_slot, slot_region
from air_fxpasses._sharing import share
from air_graph import SCATTERS, link_of, read_alike, same_extents

aten = torch.ops.aten
prims = torch.ops.prims

Source = Callable[[Facts, Node], Node | None]


@dataclass(frozen=True)
class RemoveNoop(Pass):
    """Removes identity views, and copies that can be one with their original."""

    name: ClassVar[str] = "remove_noop"
    option: ClassVar[str] = "experimental_config.remove_noop_ops"

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        def removed(node: Node) -> bool | Refusal | None:
            find = _IDENTITIES.get(node.target) if node.op == "call_function" else None
            source = find(facts, node) if find is not None else None
            return None if source is None else _remove(facts, node, source)

        return tried(gm.graph.nodes, removed, "operators without effect removed")


def _remove(facts: Facts, node: Node, source: Node) -> bool | Refusal:
    if facts.storage(node) == facts.storage(source) and facts.storage(node) is not None:
        refusal = _is_identity_seen_by_caller(facts, node, source)
    else:
        refusal = share(facts, node, source, node, rewrites=False)
    if refusal is not None:
        return refusal
    facts.replace(node, source)
    return True


def _is_identity_seen_by_caller(facts: Facts, node: Node, source: Node) -> Refusal | None:
    """Two outputs that alias stay two tensors, and an output that aliases an input is not the input."""
    alike = read_alike(facts.value(node), facts.value(source))
    if not alike or not facts.region(node).same(facts.region(source)):
        return Refusal.of("it names other elements than its argument", node)
    if node.target is aten.detach.default and link_of(source) is not None and returned_by(node) is not None:
        return Refusal.of("without it the caller gets a view of a differentiable tensor", node)
    output = next((u for u in node.users if u.op == "output"), None)
    if output is None:
        return None
    if source.op == "placeholder" or any(u.op == "output" for u in source.users):
        return Refusal.of("it is returned as a tensor of its own", node, output)
    return None


# -- when an operator is an identity: each answer is the argument it gives back


def _argument(node: Node, index: int, name: str, default: Any = None) -> Any:
    return node.args[index] if len(node.args) > index else node.kwargs.get(name, default)


def _first(facts: Facts, node: Node) -> Node | None:
    return _if_alike(facts, node, _argument(node, 0, "self"))


def _if_alike(facts: Facts, node: Node, source: Any) -> Node | None:
    """An argument that has the elements of the result, and lies like it on the same device."""
    before, after = facts.tensor(source) if isinstance(source, Node) else None, facts.tensor(node)
    if before is None or after is None or before.device != after.device:
        return None
    return source if _lie_alike(before, after) else None


def _identity_view(facts: Facts, node: Node) -> Node | None:
    source = _first(facts, node)
    if source is None or facts.storage(source) != facts.storage(node):
        return None
    return source if facts.region(source).same(facts.region(node)) else None


def _where_all(name: str, number: int) -> Source:
    """For operators that do nothing where their second argument has this number everywhere."""

    def find(facts: Facts, node: Node) -> Node | None:
        numbers = _argument(node, 1, name, ())
        return _first(facts, node) if all(isinstance(n, int) and n == number for n in numbers) else None

    return find


def _rounding(facts: Facts, node: Node) -> Node | None:
    source = _first(facts, node)
    if source is None:
        return None
    value = facts.value(source)
    return source if not value.is_floating_point() and not value.is_complex() else None


def _pow(facts: Facts, node: Node) -> Node | None:
    exponent = _argument(node, 1, "exponent")
    is_one = isinstance(exponent, int) and not isinstance(exponent, bool) and exponent == 1
    return _first(facts, node) if is_one else None


def _cat(facts: Facts, node: Node) -> Node | None:
    tensors = _argument(node, 0, "tensors", ())
    return _if_alike(facts, node, tensors[0]) if len(tensors) == 1 else None


def _cast(facts: Facts, node: Node) -> Node | None:
    return None if node.kwargs.get("pin_memory") else _first(facts, node)


def _copy(facts: Facts, node: Node) -> Node | None:
    """`copy(self, src)`: the value of `src`, when that needs no cast and no broadcast."""
    return _if_alike(facts, node, _argument(node, 1, "src"))


def _scatter(facts: Facts, node: Node) -> Node | None:
    """A scatter whose slot is the whole base gives its source; one whose source is its slot, the base."""
    base, source = _argument(node, 0, "self"), _argument(node, 1, "src")
    if not isinstance(base, Node) or not isinstance(source, Node):
        return None
    slot = slot_region(facts, node, base)
    if slot is None:
        return None
    if is_in_slot(facts, source, base, slot):
        return _first(facts, node)
    return _if_alike(facts, node, source) if slot.same(facts.region(base)) else None


def _lie_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return (
        read_alike(one, other)
        and same_extents(one.size(), other.size())
        and same_extents(one.stride(), other.stride())
    )


_IDENTITIES: Final[dict[Any, Source]] = {
    **dict.fromkeys(SCATTERS, _scatter),
    **dict.fromkeys(
        (
            aten.slice.Tensor,
            aten.view.default,
            aten.view.dtype,
            aten._unsafe_view.default,
            aten.reshape.default,
            aten._reshape_alias.default,
            aten.expand.default,
            aten.permute.default,
            aten.transpose.int,
            aten.as_strided.default,
            aten.alias.default,
            aten.detach.default,
            aten.lift_fresh.default,
            aten.contiguous.default,
        ),
        _identity_view,
    ),
    **dict.fromkeys((aten._to_copy.default, aten.clone.default, aten.lift_fresh_copy.default), _cast),
    **dict.fromkeys(
        (aten.ceil.default, aten.floor.default, aten.round.default, aten.trunc.default), _rounding
    ),
    prims.convert_element_type.default: _first,
    prims.device_put.default: _first,
    aten.repeat.default: _where_all("repeats", 1),
    aten.constant_pad_nd.default: _where_all("pad", 0),
    aten.pow.Tensor_Scalar: _pow,
    aten.cat.default: _cat,
    aten.copy.default: _copy,
}
