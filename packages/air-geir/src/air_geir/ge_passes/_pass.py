"""What a pass over a program is, and running several."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from air_fxpasses import is_left_out
from air_geir.ir import Node, Port
from air_geir.program import InputBinding, Program

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pass left a node as it was."""

    reason: str
    node: str
    source: str | None = None

    def __str__(self) -> str:
        return f"{self.node}: {self.reason}" + (f"  [{self.source}]" if self.source else "")


@dataclass(frozen=True, slots=True)
class PassResult:
    """What a pass did."""

    changed: int = 0
    refusals: tuple[Refusal, ...] = ()


def result_of(outcomes: Iterable[bool | Refusal]) -> PassResult:
    """What a pass did, by what it did at each place: changed it (True), left it as it should be, or refused to."""
    found = list(outcomes)
    return PassResult(
        sum(one is True for one in found), tuple(one for one in found if isinstance(one, Refusal))
    )


class GePass(Protocol):
    """A rewrite of a program. Implementations are frozen dataclasses without state."""

    @property
    def name(self) -> str:
        """Name in reports."""

    def __call__(self, program: Program) -> PassResult:
        """Rewrite in place."""


@dataclass(frozen=True, slots=True)
class Step:
    """One pass that ran."""

    name: str
    result: PassResult


@dataclass(frozen=True, slots=True)
class Report:
    """All passes that ran, in order."""

    steps: tuple[Step, ...]

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """What the passes left as it was, and why."""
        return tuple(r for s in self.steps for r in s.result.refusals)

    def explain(self) -> str:
        """One line per pass, and per refusal."""
        lines = []
        for step in self.steps:
            lines.append(f"{step.name}: {step.result.changed} changed")
            lines.extend(f"  refused {refusal}" for refusal in step.result.refusals)
        return "\n".join(lines)


def run_passes(program: Program, passes: Sequence[GePass]) -> Report:
    """Run the passes one after another."""
    steps = []
    for rewrite in passes:
        if is_left_out("ge_passes", partial("{} on {}".format, rewrite.name, program.graph.name)):
            continue
        result = rewrite(program)
        log.debug("%s: %d changed, %d refused", rewrite.name, result.changed, len(result.refusals))
        steps.append(Step(rewrite.name, result))
    return Report(tuple(steps))


def refusal(reason: str, node: Node) -> Refusal:
    """A refusal that carries the line of the user's program."""
    return Refusal(reason, node.name, str(node.origin) if node.origin else None)


def constant_ints(port: Port | None) -> list[int] | None:
    """The numbers of a constant, None when they are not known."""
    if port is None or port.node.op_type != "Const":
        return None
    numbers: list[int] = port.node.attr("value").tensor().reshape(-1).tolist()
    return numbers


def bindings_of(program: Program) -> dict[Node, InputBinding]:
    """The binding of each graph input."""
    return dict(zip(program.graph.inputs, program.inputs, strict=True))


def rebind(program: Program, bindings: dict[Node, InputBinding]) -> None:
    """Give the graph's inputs dense indices, and the program their bindings in that order."""
    nodes = list(program.graph.inputs)
    for index, node in enumerate(nodes):
        node.set_attr("index", index)
    program.inputs = tuple(bindings[node] for node in nodes)
