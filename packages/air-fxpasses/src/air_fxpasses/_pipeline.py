"""Runs passes over one graph module: each step atomic, timed, explained and, on request, proven."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch.fx import GraphModule

from air_fxpasses._bisect import is_left_out
from air_fxpasses._facts import Facts
from air_fxpasses._pass import Invariant, Pass, PassResult
from air_fxpasses._report import PipelineReport, Step
from air_fxpasses._snapshot import Snapshot
from air_fxpasses._verify import Proof
from air_fxpasses.errors import BadArgument, FxPassError, NoFakeValue, PassFailed, RequirementNotMet
from air_graph import Ordering, collector_paused

log = logging.getLogger(__name__)


class Pipeline:
    """A sequence of passes.

    `ordering` says which node runs before which when the graph uses several streams; without it, program
    order. `listing(pass_name, before, after)` is given the text of the graph around each pass it is asked
    for by `list_passes` (all when that is empty).
    """

    def __init__(
        self,
        passes: Sequence[Pass],
        *,
        ordering: Ordering | None = None,
        verify: bool = False,
        listing: Callable[[str, str, str], None] | None = None,
        list_passes: Sequence[str] = (),
        recompile: bool = True,
    ) -> None:
        self.passes = tuple(passes)
        for place, one in enumerate(self.passes):
            _refuse_no_pass(place, one)
        self.ordering = ordering
        self.verify = verify
        self.listing = listing
        self.list_passes = frozenset(list_passes)
        self.recompile = recompile

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the passes, in order."""
        return tuple(one.name for one in self.passes)

    def run(self, gm: GraphModule, example_inputs: Sequence[Any] | None = None) -> PipelineReport:
        """Edits `gm` in place and reports what each pass did."""
        with collector_paused():
            return self._run(gm, example_inputs)

    def _run(self, gm: GraphModule, example_inputs: Sequence[Any] | None) -> PipelineReport:
        started = time.perf_counter()
        facts = Facts(gm, example_inputs, self.ordering)
        proof = Proof.start(gm, facts, example_inputs) if self.verify else None
        ensured: set[Invariant] = set()
        steps: list[Step] = []
        snapshot = Snapshot(gm)
        for one in self.passes:
            if is_left_out("fx_passes", functools.partial(_named, one)):
                continue
            self._require(one, gm, ensured)
            step = self._step(one, gm, facts, proof, snapshot)
            steps.append(step)
            if step.modified or step.rolled_back:
                snapshot = Snapshot(gm, snapshot)
            if not step.rolled_back:
                ensured.update(one.ensures)
        if self.recompile and any(step.modified for step in steps):
            gm.recompile()
        unchecked = "" if proof is None else proof.unchecked
        report = PipelineReport(tuple(steps), time.perf_counter() - started, unchecked)
        log.info("%s", report.summary())
        return report

    def _require(self, one: Pass, gm: GraphModule, ensured: set[Invariant]) -> None:
        for invariant in one.requires:
            if invariant in ensured:
                continue
            violation = invariant.find_violation(gm)
            if violation is not None:
                by = tuple(p.name for p in self.passes if invariant in p.ensures)
                raise RequirementNotMet(one.name, invariant.name, violation, by)

    def _step(
        self, one: Pass, gm: GraphModule, facts: Facts, proof: Proof | None, snapshot: Snapshot
    ) -> Step:
        listed = self.listing is not None and (not self.list_passes or one.name in self.list_passes)
        before = _text(gm) if listed else ""
        nodes_before = len(gm.graph.nodes)
        started = time.perf_counter()
        try:
            result = _checked(one(gm, facts))
        except Exception as error:  # a pass may raise anything: it is undone and reported, never swallowed
            self._undo(snapshot, facts)
            users = getattr(one, "function", None)
            raise PassFailed(one.name, _node_of(error, gm), error, users) from error
        seconds = time.perf_counter() - started
        if self.listing is not None and listed:
            self.listing(one.name, before, _text(gm))
        if proof is not None and not result.modified and not snapshot.is_unchanged():
            result = replace(
                result, modified=True, notes=(*result.notes, "it changed the graph and said that it did not")
            )
        violation = _violation(one, gm, facts, proof) if proof is not None and result.modified else None
        if violation is not None:
            log.warning("pass '%s' is rolled back: %s", one.name, violation)
            self._undo(snapshot, facts)
        return Step(
            one.name,
            result.modified and violation is None,
            result.refusals,
            result.notes,
            seconds,
            nodes_before,
            len(gm.graph.nodes),
            violation or "",
        )

    def _undo(self, snapshot: Snapshot, facts: Facts) -> None:
        facts.take_over(snapshot.restore())


def _refuse_no_pass(place: int, one: object) -> None:
    """What a list of passes has by mistake; a pass that nothing can name cannot be reported or left out."""
    if isinstance(one, type) and issubclass(one, Pass):
        raise BadArgument(f"passes[{place}] is the class {one.__name__}", advice=f"give {one.__name__}()")
    if not isinstance(one, Pass):
        kind, function = type(one).__name__, getattr(one, "__name__", "")
        function = function if function.isidentifier() else "function"
        advice = f'CustomPass({function}, "a name") makes a pass of a function' if callable(one) else ""
        raise BadArgument(
            f"passes[{place}] is a {kind}, and no pass",
            advice=advice or "give objects of classes derived from Pass; default_passes() has those of AIR",
        )
    if not isinstance(getattr(one, "name", None), str):
        kind = type(one).__name__
        raise BadArgument(
            f"passes[{place}], a {kind}, has no name", advice=f'write `name: ClassVar[str] = "..."` in {kind}'
        )


def _checked(result: object) -> PassResult:
    if isinstance(result, PassResult):
        return result
    raise TypeError(
        f"it returns {type(result).__name__}; a pass returns PassResult(modified, refusals, notes)"
    )


def _violation(one: Pass, gm: GraphModule, facts: Facts, proof: Proof) -> str | None:
    for invariant in one.ensures:
        found = invariant.find_violation(gm)
        if found is not None:
            return f"it ensures '{invariant.name}', but {found}"
    return proof.violation(gm, facts, one.rtol)


def _node_of(error: BaseException, gm: GraphModule) -> Any:
    """The node an error names, when it names one."""
    if isinstance(error, NoFakeValue):
        return next((n for n in gm.graph.nodes if n.name == error.node), None)
    node = getattr(error, "node", None)
    return node if isinstance(error, FxPassError) and hasattr(node, "meta") else None


def _named(one: Pass) -> str:
    """The name of a pass, and of the function it calls where it is a user's."""
    function = getattr(one, "function", None)
    name = getattr(function, "__qualname__", "") or getattr(function, "__name__", "")
    return f"{one.name} ({name})" if name else one.name


def _text(gm: GraphModule) -> str:
    return str(gm.graph)
