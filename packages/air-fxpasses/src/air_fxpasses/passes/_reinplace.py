"""Lets results live in the memory of their arguments: what the reinplacing passes share.

    y = add(x, 1)                              ->   y = add_(x, 1)
    y = slice_scatter(x, v, 0, 2, 4)           ->   slice(x, 0, 2, 4).copy_(v);  y = x
    y = clone(x); write_(y)                    ->   write_(x);  y = x
    a, b = update(x, y)                        ->   update_(x, y);  a, b = x, y

Functionalisation turned the user's in-place writes into copies; these are the writes back. Whether one is
allowed is `may_share`'s answer, which knows about memory and not about names.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from air_fxpasses._facts import Facts
from air_fxpasses._pass import Pass, PassResult, tried
from air_fxpasses._refusal import Refusal
from air_fxpasses._scatters import is_in_slot, slot_region
from air_fxpasses._sharing import share
from air_fxpasses.passes._mutators import conflict, write_in_place, written_by
from air_fxpasses.tables import Twin, twin_of
from air_graph import SCATTERS, draws_random_numbers, named_arguments, repeated_element, view_arguments

aten = torch.ops.aten

#: Random operators whose functional form exists only as "copy, then the in-place operator": same draws.
_SAME_DRAWS: Final[frozenset[str]] = frozenset(
    f"aten::{name}"
    for name in ("uniform", "normal_functional", "exponential", "geometric", "cauchy", "log_normal", "random")
)
#: Products with a number: libtorch's form in place rounds the number to half precision before it multiplies.
ROUND_FIRST: Final = frozenset(
    {aten.mul.Scalar, aten.multiply.Scalar, aten._foreach_mul.Scalar, aten._foreach_mul.ScalarList}
)
_HALVES: Final = (torch.float16, torch.bfloat16)
Outcome = bool | Refusal | None
"""True when a node was reinplaced, the reason when that was refused, None for one that is left alone."""


@dataclass(frozen=True)
class Reinplacing(Pass):
    """A pass that lets results live in the memory of arguments that are in its scope."""

    places_values: ClassVar[bool] = True
    into_inputs: ClassVar[bool] = True
    """Whether it writes to the memory of inputs."""

    off_because: str = ""
    """When not empty, the pass does nothing and gives this as the reason for every candidate."""

    @abc.abstractmethod
    def in_scope(self, facts: Facts, home: Node) -> bool:
        """Whether the pass may let something live in the memory of `home`."""

    def is_candidate(self, node: Node) -> bool:
        """Whether `node` calls an operator that has an in-place form."""
        target = node.target
        if node.op != "call_function" or not isinstance(target, OpOverload):
            return False
        return target is aten.clone.default or target in SCATTERS or twin_of(target) is not None

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        """Tries every candidate once, in program order."""
        candidates = [node for node in gm.graph.nodes if self.is_candidate(node)]
        if self.off_because:
            return PassResult(False, tuple(Refusal.of(self.off_because, node) for node in candidates))
        return tried(candidates, lambda node: self._reinplaced(facts, node), "operators write in place")

    def _reinplaced(self, facts: Facts, node: Node) -> Outcome:
        twin = twin_of(node.target)
        if node.target in SCATTERS:
            return self._write_slot(facts, node)
        if twin is None:
            return self._drop_copy(facts, node)
        if refusal := _numbers_differ(facts, node):
            return refusal
        if twin.returns_self or twin.returns_nothing:
            return self._use_twin(facts, node, twin)
        return self._use_mutator(facts, node, twin)

    def _home(self, facts: Facts, node: Node) -> Node | None:
        """The first argument of a copy or a scatter, where it is in scope."""
        home = node.args[0] if node.args else node.kwargs.get("self")
        return home if isinstance(home, Node) and self.in_scope(facts, home) else None

    def _drop_copy(self, facts: Facts, node: Node) -> Outcome:
        home = self._home(facts, node)
        if home is None:
            return None
        if refusal := share(facts, node, home, node, rewrites=False, into_inputs=self.into_inputs):
            return refusal
        facts.replace(node, home)
        return True

    def _write_slot(self, facts: Facts, node: Node) -> Outcome:
        home = self._home(facts, node)
        source = node.args[1] if len(node.args) > 1 else None
        if home is None or not isinstance(source, Node):
            return None
        slot = slot_region(facts, node, home)
        if slot is None:
            why = repeated_element(facts.region(home))
            return Refusal.of(why or "what it replaces may not be a part of its base", node)
        in_slot = is_in_slot(facts, source, home, slot)
        if not in_slot and facts.may_overlap(source, home):
            return Refusal.of(f"argument '{source.name}' overlaps the memory it would write", node, source)
        if refusal := share(facts, node, home, node, into_inputs=self.into_inputs):
            return refusal
        if not in_slot:
            args, kwargs = view_arguments(node)
            view = facts.insert_before(node, SCATTERS[node.target], (home, *args), kwargs)
            facts.insert_before(node, aten.copy_.default, (view, source))
        facts.replace(node, home)
        return True

    def _use_twin(self, facts: Facts, node: Node, twin: Twin) -> Outcome:
        home = named_arguments(node, twin.functional).get(twin.mutated[0])
        if not isinstance(home, Node) or not self.in_scope(facts, home):
            return None
        refusal = _draws_differ(node) or conflict(facts, node, home)
        if refusal or (refusal := share(facts, node, home, node, into_inputs=self.into_inputs)):
            return refusal
        if twin.returns_self:
            facts.retarget(node, twin.inplace, facts.value(home))
            return True
        facts.insert_before(node, twin.inplace, node.args, dict(node.kwargs))
        facts.replace(node, home)
        return True

    def _use_mutator(self, facts: Facts, node: Node, twin: Twin) -> Outcome:
        written = written_by(node, twin)
        if written is None:
            return Refusal.of("its results are used in a way that has no in-place form", node)
        if not any(self.in_scope(facts, entry.home) for entry in written):
            return None
        return write_in_place(facts, node, twin, written, self.into_inputs)


def _numbers_differ(facts: Facts, node: Node) -> Refusal | None:
    if node.target not in ROUND_FIRST:
        return None
    first = node.args[0] if node.args else node.kwargs.get("self")
    tensors = (one for one in tree_leaves(first) if isinstance(one, Node))
    if not any(facts.value(one).dtype in _HALVES for one in tensors):
        return None
    return Refusal.of("its in-place form rounds the number to half precision first", node)


def _draws_differ(node: Node) -> Refusal | None:
    target = node.target
    if not isinstance(target, OpOverload) or not draws_random_numbers(node):
        return None
    if target._schema.name in _SAME_DRAWS:
        return None
    return Refusal.of("it draws random numbers, and its in-place form may draw others", node)
