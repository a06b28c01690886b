"""Replaces groups of operators by fused ones, following the table of fusion patterns.

    y = add_rms_norm(a, b, g); q, s = dynamic_quant(y)      ->      q, s = add_rms_norm_dynamic_quant(a, b, g)

A match is refused, with the reason, when a value inside it is used elsewhere, when its operators run on
several streams, when something it reads is written in between, or when the pattern's own check says no.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from air_fxpasses._facts import Facts
from air_fxpasses._pass import Pass, PassResult
from air_fxpasses._refusal import Refusal
from air_fxpasses.passes._relaid import Noticed, lay_out_again, relaid
from air_fxpasses.patterns._matcher import Failure, Matcher, Traced, kind
from air_fxpasses.patterns._row import FusionPattern, Match
from air_fxpasses.patterns._table import registered_patterns, traced_pattern
from air_fxpasses.patterns._trace import trace
from air_graph import same_extents


@dataclass(frozen=True)
class FusePatterns(Pass):
    """Applies every pattern of the table whose operators are loaded, or the given ones."""

    name: ClassVar[str] = "fuse_patterns"
    option: ClassVar[str] = "experimental_config.pattern_fusion_pass"
    rtol: ClassVar[float] = 1.6e-2

    patterns: tuple[FusionPattern, ...] | None = None

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        rows = registered_patterns() if self.patterns is None else self.patterns
        notes: list[str] = []
        refusals: list[Refusal] = []
        called = {n.target._schema.name for n in gm.graph.nodes if isinstance(n.target, OpOverload)}
        for row in rows:
            if row.operators <= called and not row.missing():
                done = _apply_everywhere(facts, row, refusals)
                notes.extend([f"{done} matches of {row.name} replaced"] if done else [])
        return PassResult(bool(notes), tuple(refusals), tuple(notes))


def _apply_everywhere(facts: Facts, row: FusionPattern, refusals: list[Refusal]) -> int:
    traced = traced_pattern(row)
    anchor = kind(traced.anchor.target)
    done, noticed = 0, Noticed()
    for node in reversed(list(facts.graph.nodes)):
        if node.op != "call_function" or node._erased or kind(node.target) != anchor:
            continue
        outcome = _apply_at(facts, row, traced, node, noticed)
        if outcome is True:
            done += 1
            noticed.clear()
        elif isinstance(outcome, Refusal):
            refusals.append(outcome)
    return done


def _apply_at(
    facts: Facts, row: FusionPattern, traced: Traced, node: Node, noticed: Noticed
) -> bool | Refusal:
    try:
        loose = Matcher(traced, row.scalars, exact=False)
        loose.run(node)
        bindings = {name: loose.bound.get(p) for name, p in zip(row.parameters, traced.inputs, strict=True)}
        exact_pattern = _trace_for(facts, row, {**bindings, **loose.numbers}, loose)
        exact = Matcher(exact_pattern, {}, exact=True)
        exact.run(node)
    except Failure as failure:
        return _failure(row, traced, node, failure)
    outputs = tuple(exact.bound.get(p) for p in exact_pattern.outputs)
    match = Match(row.name, {**bindings, **loose.numbers}, tuple(exact.matched()), outputs, facts)
    refusal = (
        _inside_refusal(match)
        or _stream_refusal(match)
        or _write_refusal(match)
        or _place_refusal(match)
        or _own_refusal(row, match)
    )
    return refusal or _replace(row, match, noticed)


def _failure(row: FusionPattern, traced: Traced, node: Node, failure: Failure) -> bool | Refusal:
    """A near miss is worth a reason; a call that merely looks like the last one of the pattern is not."""
    if failure.matched < 2 and len(traced.calls) > 1:
        return False
    return Refusal.of(f"{row.name}: {failure.reason}", node, failure.at)


def _values(facts: Facts, row: FusionPattern, bindings: Mapping[str, Any]) -> list[Any]:
    """The example values behind the tensor parameters of a pattern."""
    given = [bindings[name] for name in row.parameters]
    return [facts.value(v) if isinstance(v, Node) else v for v in given]


def _trace_for(facts: Facts, row: FusionPattern, bindings: Mapping[str, Any], loose: Matcher) -> Traced:
    """The search function once more, with the sizes and numbers found in the graph."""
    scalars = {name: bindings.get(name, value) for name, value in row.scalars.items()}
    try:
        return Traced(trace(row, row.search, _values(facts, row, bindings), scalars))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        reason = f"the search function refuses these values: {error}"
        raise Failure(reason, None, len(loose.matched())) from error


def _no(match: Match, reason: str, at: Node | None = None) -> Refusal:
    return Refusal.of(f"{match.pattern}: {reason}", match.nodes[-1], at)


def _inside_refusal(match: Match) -> Refusal | None:
    """What the fused operator does not give must not be needed by anybody else."""
    inside = set(match.nodes)
    for node in match.nodes:
        if node in match.outputs:
            continue
        for user in node.users:
            if user not in inside:
                return _no(match, f"'{node.name}' is used elsewhere", user)
    return None


def _stream_refusal(match: Match) -> Refusal | None:
    last = match.nodes[-1]
    for node in match.nodes[:-1]:
        if not match.facts.on_one_stream(node, last):
            return _no(match, "its operators run on several streams", node)
    return None


def _write_refusal(match: Match) -> Refusal | None:
    """Reading everything at one place must see what reading it bit by bit saw."""
    facts, first, last = match.facts, match.nodes[0], match.nodes[-1]
    for value in {n for node in match.nodes for n in (node, *node.all_input_nodes)}:
        writer = facts.written_between(facts.storage(value), first, last, but=last)
        if writer is not None:
            return _no(match, f"'{value.name}' is written in between", writer)
    return None


def _place(match: Match) -> Node | None:
    """Where the replacement can stand: after its inputs, before every user of its results."""
    inputs = [v for v in match.kwargs.values() if isinstance(v, Node)]
    outputs = sorted(n for n in match.outputs if n is not None)
    if outputs and all(n < outputs[0] for n in inputs):
        return outputs[0]
    last = match.nodes[-1]
    users = [u for n in outputs for u in n.users if u not in match.nodes]
    return last if all(last < u for u in users) else None


def _place_refusal(match: Match) -> Refusal | None:
    if _place(match) is not None:
        return None
    return _no(match, "a result is used before everything it would be computed from is there")


def _own_refusal(row: FusionPattern, match: Match) -> Refusal | None:
    answer = None if row.extra_check is None else row.extra_check(match)
    if isinstance(answer, Refusal):
        return answer
    if answer is None or answer is True:
        return None
    return _no(match, answer if isinstance(answer, str) else "its own check refuses")


# -- the replacement


def _replace(row: FusionPattern, match: Match, noticed: Noticed) -> bool | Refusal:
    facts = match.facts
    scalars = {name: match.kwargs.get(name, value) for name, value in row.scalars.items()}
    try:
        traced = Traced(trace(row, row.replace, _values(facts, row, match.kwargs), scalars))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        return _no(match, f"the replacement refuses these values: {error}")
    followers = _followers(match, traced, noticed)
    if isinstance(followers, Refusal):
        return followers
    place = _place(match)
    if place is None:
        return _no(match, "there is no place for it")
    bound = dict(zip(traced.inputs, (match.kwargs[name] for name in row.parameters), strict=True))
    inserted = _inline(facts, traced, bound, place)
    for old, new in zip(match.outputs, traced.outputs, strict=True):
        if old is not None and isinstance(bound[new], Node):
            facts.replace_uses(old, bound[new])
    lay_out_again(facts, followers)
    _erase_unused(facts, [*match.nodes, *inserted])
    return True


def _followers(match: Match, traced: Traced, noticed: Noticed) -> list[Node] | Refusal:
    """The nodes that are laid out otherwise after it: a result may change its layout where nobody notices."""
    moved: dict[Node, torch.Tensor] = {}
    for old, new in zip(match.outputs, traced.outputs, strict=True):
        if old is None:
            continue
        before, after = match.facts.tensor(old), new.meta["val"]
        if before is None or before.dtype != after.dtype or not same_extents(before.size(), after.size()):
            return _no(match, f"the replacement of '{old.name}' has another type or size", old)
        if before.device != after.device:
            return _no(match, f"the replacement of '{old.name}' is on another device", old)
        if not same_extents(before.stride(), after.stride()):
            moved[old] = after
    found = relaid(match.facts, moved, but=match.nodes, noticed=noticed)
    if isinstance(found, Node):
        return _no(match, f"the layout of {', '.join(repr(old.name) for old in moved)} would change", found)
    return found


def _inline(facts: Facts, traced: Traced, bound: dict[Node, Any], place: Node) -> list[Node]:
    inserted: list[Node] = []
    for node in traced.gm.graph.nodes:
        if node.op != "call_function":
            continue
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: bound[n])
        bound[node] = facts.insert_before(place, node.target, args, kwargs)
        inserted.append(bound[node])
    return inserted


def _erase_unused(facts: Facts, nodes: Iterable[Node]) -> None:
    for node in sorted(nodes, reverse=True):
        if not node.users:
            facts.erase(node)
