"""Lets results live in the memory of their arguments: the engine of both reinplacing passes.

    y = add(x, 1)                              ->   y = add_(x, 1)
    y = slice_scatter(x, v, 0, 2, 4)           ->   slice(x, 0, 2, 4).copy_(v);  y = x
    y = clone(x); write_(y)                    ->   write_(x);  y = x
    a, b = update(x, y)                        ->   update_(x, y);  a, b = x, y

Functionalisation turned the user's in-place writes into copies; these are the writes back. Whether one is
allowed is `may_share`'s answer, which knows about memory and not about names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from air_fxpasses._facts import Facts
from air_fxpasses._pass import PassResult
from air_fxpasses._refusal import Refusal
from air_fxpasses._scatters import SCATTERS, is_in_slot, slot_region, view_arguments
from air_fxpasses._sharing import may_share, settle
from air_fxpasses.passes._mutators import conflict, write_in_place, written_by
from air_fxpasses.tables import Twin, twin_of
from air_graph import repeated_element

aten = torch.ops.aten

#: Random operators whose functional form exists only as "copy, then the in-place operator": same draws.
_SAME_DRAWS: Final[frozenset[str]] = frozenset(
    f"aten::{name}"
    for name in ("uniform", "normal_functional", "exponential", "geometric", "cauchy", "log_normal", "random")
)

Scope = Callable[[Node], bool]
Outcome = bool | Refusal | None


def reinplace_node(facts: Facts, node: Node, *, into_inputs: bool, in_scope: Scope) -> Outcome:
    """Reinplaces `node` if it is a candidate: `True` when done, the reason when refused, else `None`."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return None
    if node.target is aten.clone.default:
        return _drop_copy(facts, node, into_inputs, in_scope)
    if node.target in SCATTERS:
        return _write_slot(facts, node, into_inputs, in_scope)
    twin = twin_of(node.target)
    if twin is None:
        return None
    if twin.returns_self or twin.returns_nothing:
        return _use_twin(facts, node, twin, into_inputs, in_scope)
    return _use_mutator(facts, node, twin, into_inputs, in_scope)


def _first_tensor(node: Node) -> Node | None:
    home = node.args[0] if node.args else node.kwargs.get("self")
    return home if isinstance(home, Node) else None


def _drop_copy(facts: Facts, node: Node, into_inputs: bool, in_scope: Scope) -> Outcome:
    home = _first_tensor(node)
    if home is None or not in_scope(home):
        return None
    verdict = may_share(facts, node, home, node, rewrites=False, into_inputs=into_inputs)
    if isinstance(verdict, Refusal):
        return verdict
    settle(facts, verdict)
    facts.replace_uses(node, home)
    facts.erase(node)
    return True


def _write_slot(facts: Facts, node: Node, into_inputs: bool, in_scope: Scope) -> Outcome:
    home = _first_tensor(node)
    source = node.args[1] if len(node.args) > 1 else None
    if home is None or not in_scope(home) or not isinstance(source, Node):
        return None
    slot = slot_region(facts, node, home)
    if slot is None:
        why = repeated_element(facts.region(home))
        return Refusal.of(why or "what it replaces may not be a part of its base", node)
    in_slot = is_in_slot(facts, source, home, slot)
    if not in_slot and facts.may_overlap(source, home):
        return Refusal.of(f"argument '{source.name}' overlaps the memory it would write", node, source)
    verdict = may_share(facts, node, home, node, into_inputs=into_inputs)
    if isinstance(verdict, Refusal):
        return verdict
    settle(facts, verdict)
    if not in_slot:
        args, kwargs = view_arguments(node)
        view = facts.insert_before(node, SCATTERS[node.target], (home, *args), kwargs)
        facts.insert_before(node, aten.copy_.default, (view, source))
    facts.replace_uses(node, home)
    facts.erase(node)
    return True


def _use_twin(facts: Facts, node: Node, twin: Twin, into_inputs: bool, in_scope: Scope) -> Outcome:
    home = _written_argument(node, twin)
    if home is None or not in_scope(home):
        return None
    if (refusal := _draws_differ(node) or conflict(facts, node, home)) is not None:
        return refusal
    verdict = may_share(facts, node, home, node, into_inputs=into_inputs)
    if isinstance(verdict, Refusal):
        return verdict
    settle(facts, verdict)
    if twin.returns_self:
        facts.retarget(node, twin.inplace, facts.value(home))
        return True
    facts.insert_before(node, twin.inplace, node.args, dict(node.kwargs))
    facts.replace_uses(node, home)
    facts.erase(node)
    return True


def _written_argument(node: Node, twin: Twin) -> Node | None:
    """What is passed as the one argument that the in-place form writes."""
    name = twin.mutated[0]
    position = [a.name for a in twin.functional._schema.arguments].index(name)
    given = node.args[position] if position < len(node.args) else node.kwargs.get(name)
    return given if isinstance(given, Node) else None


def _draws_differ(node: Node) -> Refusal | None:
    target = node.target
    if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return None
    if target._schema.name in _SAME_DRAWS:
        return None
    return Refusal.of("it draws random numbers, and its in-place form may draw others", node)


def _use_mutator(facts: Facts, node: Node, twin: Twin, into_inputs: bool, in_scope: Scope) -> Outcome:
    written = written_by(node, twin)
    if written is None:
        return Refusal.of("its results are used in a way that has no in-place form", node)
    if not any(in_scope(entry.home) for entry in written):
        return None
    return write_in_place(facts, node, twin, written, into_inputs)


def run_over(
    facts: Facts, *, into_inputs: bool, in_scope: Scope, off_because: str, pointwise: bool = True
) -> PassResult:
    """Tries every node of the graph once, in program order."""
    if off_because:
        candidates = (n for n in facts.graph.nodes if is_candidate(n))
        return PassResult(False, tuple(Refusal.of(off_because, n) for n in candidates))
    done = 0
    refusals: list[Refusal] = []
    for node in list(facts.graph.nodes):
        if not pointwise and torch.Tag.pointwise in getattr(node.target, "tags", ()):
            continue
        outcome = reinplace_node(facts, node, into_inputs=into_inputs, in_scope=in_scope)
        if outcome is True:
            done += 1
        elif isinstance(outcome, Refusal):
            refusals.append(outcome)
    return PassResult(done > 0, tuple(refusals), (f"{done} operators write in place",) if done else ())


def is_candidate(node: Node) -> bool:
    """Whether `node` calls an operator that has an in-place form."""
    if node.op != "call_function" or not isinstance(node.target, OpOverload):
        return False
    target = node.target
    return target is aten.clone.default or target in SCATTERS or twin_of(target) is not None
