"""The first call of a graph waits for its compilation in the background, whatever happens to the waiting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from air_geir.engines import Idle
from air_geir.engines._serialized import SerializedCalls
from air_geir.errors import EngineError
from air_geir.ir import Graph


class Ahead:
    """A compilation; waiting for it ends like this."""

    def __init__(self, *ends: BaseException) -> None:
        self._ends: Iterator[BaseException] = iter(ends)
        self.waited = 0

    def wait(self) -> bool:
        self.waited += 1
        raise next(self._ends)

    def drop(self) -> None:
        """Nothing to drop."""


class Others:
    """Process groups that have been made anew, but for those that are gone."""

    def __init__(self, *gone: str) -> None:
        self._gone = gone

    def are_others(self) -> bool:
        return True

    def gone(self) -> tuple[str, ...]:
        return self._gone


class Device:
    """A stream on which nothing runs."""

    def synchronize(self) -> None:
        """Nothing to wait for."""


def test_N22_a_graph_that_was_closed_is_not_compiled_again_for_process_groups_that_were_made_anew() -> None:
    graph = Graph("g")
    graph.output([])
    made: list[Idle] = []

    def again() -> Idle:
        made.append(Idle())
        return made[-1]

    calls = SerializedCalls(Idle(), graph, again=again)
    calls._meant, calls._home = Others(), Device()  # type: ignore[assignment]  # what stands for them
    calls._current = lambda: None
    calls.close()
    calls((), ())
    assert not made


def test_N22_a_graph_whose_process_group_was_destroyed_says_so() -> None:
    graph = Graph("g")
    graph.output([])
    calls = SerializedCalls(Idle(), graph, again=Idle)
    calls._meant = Others("0")  # type: ignore[assignment]  # what stands for them
    with pytest.raises(EngineError, match="process group 0, which has been destroyed"):
        calls((), ())


def test_after_an_interrupt_the_next_call_waits_for_the_compilation_that_still_runs() -> None:
    graph = Graph("g")
    graph.output([])
    ahead = Ahead(KeyboardInterrupt(), EngineError("it failed"))
    calls = SerializedCalls(Idle(), graph, ahead)  # type: ignore[arg-type]  # what stands for a compilation
    for end in (KeyboardInterrupt, EngineError):
        with pytest.raises(end):
            calls((), ())
    assert ahead.waited == 2, "a second compilation would begin beside the first"
    assert calls._ahead is None, "after an error the next call compiles by itself"
