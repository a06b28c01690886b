"""What an engine is, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from air_geir.errors import EngineError
from air_geir.program import Program


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Why an engine cannot be used on this machine, and what would make it usable."""

    engine: str
    reason: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.engine}: {self.reason}" + (f" ({self.advice})" if self.advice else "")


@dataclass(frozen=True)
class TensorDump:
    """Which tensors of which operators are written, in which runs: the options of `dump_config`."""

    path: str
    sides: tuple[str, ...] = ("input", "output")
    steps: tuple[range, ...] = ()
    """Runs to write; empty is all of them."""
    nodes: frozenset[str] | None = None
    """Names or types of operators, or names of FX nodes they come from; None is all of them."""
    statistics: bool = False
    """Write minimum, maximum, mean and norm as lines of a table instead of the tensors."""


class Carrier(Protocol):
    """Exchanges kept entries of graphs with other machines."""

    def bring(self, place: Path) -> None:
        """Called when a graph is not found at this place: puts its entry there, if it has one."""

    def take(self, place: Path) -> None:
        """Called when the entry of a graph is complete at this place."""


@dataclass(frozen=True)
class EngineOptions:
    """What an engine is told beyond the graph: GE's own options, as text, exactly as they are passed."""

    session: Mapping[str, str]
    """Options of the process-wide GE session."""
    graph: Mapping[str, str]
    """Options of this graph."""
    name: str = "graph"
    dump: TensorDump | None = None
    """Tensors to write while the graph runs, for an engine that writes them itself."""
    kept_in: Path | None = None
    """Where what the engine makes of the graph is kept for other processes."""
    carrier: Carrier | None = None
    """What takes it to other machines."""
    ahead: bool = False
    """Whether the graph is compiled in the background, instead of in its first call."""


class Compiled(Protocol):
    """A graph ready to run. Called with tensors in the order of the graph's inputs.

    Results are dense, each in memory of its own.
    """

    def __call__(
        self, inputs: Sequence[torch.Tensor], assigned: Sequence[torch.Tensor | None]
    ) -> Sequence[torch.Tensor]:
        """Run once. `assigned` has a tensor for each output that must be written into given memory, else None;
        it is empty when there is none."""

    def stats(self) -> Mapping[str, object]:
        """Numbers about compilation and runs."""

    def close(self) -> None:
        """Free everything."""


def closed(graph: str) -> EngineError:
    """The error for a call of a graph that was closed."""
    return EngineError(
        f"graph {graph} was closed", advice="compile it again: close() frees what the engine holds"
    )


class Idle:
    """Stands for a graph that computes nothing: every result is an argument, a view of one, or known."""

    def __call__(
        self, inputs: Sequence[torch.Tensor], assigned: Sequence[torch.Tensor | None]
    ) -> Sequence[torch.Tensor]:
        """Nothing."""
        return ()

    def stats(self) -> Mapping[str, object]:
        """Nothing ran, and nothing will."""
        return {"engine": "none"}

    def close(self) -> None:
        """Nothing to give back."""


class Engine(Protocol):
    """Compiles programs. Engines are stateless; what a compilation needs is in the `Compiled` it gives."""

    @property
    def name(self) -> str:
        """The name used to choose this engine."""

    def unavailable(self) -> Unavailable | None:
        """None when the engine works on this machine, else the reason."""

    def compile(self, program: Program, options: EngineOptions) -> Compiled:
        """Make the program ready to run; its graph has passed the verifier."""
