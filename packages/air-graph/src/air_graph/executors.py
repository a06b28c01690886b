"""What runs a compiled graph: one type for every executor, so callers know what they can ask.

run(*inputs)        the results, in the order of the graph
run.explain()       what was decided, as dictionaries, lists, strings and numbers
run.stats()         counts and numbers since the graph was compiled
run.source          the Python that was made of the graph; empty where there is none
run.pieces          the executors of its pieces, by name, where the graph was cut
run.eager           what runs eagerly between them, with the reason and the line
run.close()         gives back what it holds; a later call raises where there was anything
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

if TYPE_CHECKING:
    from air_graph.pieces import LeftOut

_NO_PIECES: Final[Mapping[str, Any]] = MappingProxyType({})


@runtime_checkable
class Executor(Protocol):
    """A compiled graph."""

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def pieces(self) -> Mapping[str, Executor]: ...

    @property
    def eager(self) -> tuple[LeftOut, ...]: ...

    def __call__(self, *args: Any) -> Any: ...

    def explain(self) -> dict[str, Any]: ...

    def stats(self) -> dict[str, Any]: ...

    def close(self) -> None: ...


class WholeGraph:
    """What an executor says of a graph that was not cut, unless it knows better."""

    @property
    def source(self) -> str:
        """The Python that was made of the graph."""
        return ""

    @property
    def pieces(self) -> Mapping[str, Executor]:
        """None: the graph is whole."""
        return _NO_PIECES

    @property
    def eager(self) -> tuple[LeftOut, ...]:
        """None: the graph is whole."""
        return ()

    def explain(self) -> dict[str, Any]:
        """What was decided; nothing, for an executor that decides nothing."""
        return {}

    def stats(self) -> dict[str, Any]:
        """Counts since the graph was compiled."""
        return {}

    def close(self) -> None:
        """Nothing is held."""


def boxed(call: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Marks a function that takes its inputs in one list, which it may empty: AOTAutograd looks for this mark."""
    call.__dict__["_boxed_call"] = True
    return call


def left_out(nodes: tuple[LeftOut, ...]) -> list[dict[str, str]]:
    """What runs eagerly, as a report says it."""
    return [{"operator": e.target, "because": e.reason, "where": e.source or e.node} for e in nodes]
