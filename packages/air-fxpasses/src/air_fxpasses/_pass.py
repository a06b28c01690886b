"""What a pass is: a frozen dataclass that edits a graph and says what it did and what it refused."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from torch.fx import GraphModule, Node

from air_fxpasses._facts import Facts
from air_fxpasses._refusal import Refusal


@dataclass(frozen=True)
class Invariant:
    """A property of a graph that a pass may need or establish."""

    name: str
    find_violation: Callable[[GraphModule], str | None] = field(compare=False)
    """Says what violates the property, or `None` when it holds."""


@dataclass(frozen=True)
class PassResult:
    """What one run of a pass did."""

    modified: bool
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()


def tried(nodes: Iterable[Node], attempt: Callable[[Node], bool | Refusal | None], done: str) -> PassResult:
    """What comes of an attempt at each node: True where it changed the graph, a reason where it was refused.

    `done` says of a number of nodes what was done to them.
    """
    outcomes = [attempt(node) for node in list(nodes)]
    changed = sum(outcome is True for outcome in outcomes)
    refusals = tuple(outcome for outcome in outcomes if isinstance(outcome, Refusal))
    return PassResult(changed > 0, refusals, (f"{changed} {done}",) if changed else ())


@dataclass(frozen=True)
class Pass(abc.ABC):
    """One step of a pipeline; its options are its fields.

    The graph is valid before and after a call, and computes the same values. While it edits, a pass keeps
    `facts` right by editing through it, or calls `facts.refresh()` afterwards.
    """

    name: ClassVar[str]
    requires: ClassVar[tuple[Invariant, ...]] = ()
    ensures: ClassVar[tuple[Invariant, ...]] = ()
    option: ClassVar[str] = ""
    """The path of the setting that switches the pass: off, where its last word begins with `disable_`."""
    places_values: ClassVar[bool] = False
    """Whether it decides in whose memory values lie, which means nothing to an executor that does so itself."""
    rtol: ClassVar[float] = 0.0
    """How far results may move, relative to their size, when a pass computes them another way."""

    @abc.abstractmethod
    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        """Edits `gm` in place."""
