"""Operators that an engine refuses for the chip run eagerly, whether it says so early or in a first call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from air_geir import Executable, SplitExecutable, compile_graph, register_engine
from air_geir._engines import ENGINES
from air_geir.engines import Compiled, EngineOptions, Unavailable
from air_geir.errors import CompilationFailed, EngineError, UnsupportedGraphError
from air_geir.program import Program
from air_geir.proof import trace
from air_geir.reference import ReferenceEngine

LACKS = {"Sinh", "Erf"}


def refusal(program: Program) -> EngineError | None:
    """What the Graph Engine says of the first operator that the chip lacks; the name of a node is in a longer text."""
    for graph in program.graph.graphs():
        for node in graph:
            if node.op_type in LACKS:
                said = f"No supported Ops kernel and engine are found for [{node.name}], optype [{node.op_type}]."
                cause = RuntimeError(f"EZ3003: [PID: 1] 2025-02-25 {said}\n  Possible Cause: ...")
                error = EngineError("the graph engine failed to compile graph g: no message")
                error.__cause__ = cause
                return error
    return None


class Late:
    """Says it in the first call."""

    def __init__(self, program: Program, compiled: Compiled) -> None:
        self._program, self._compiled = program, compiled
        self.closed = False

    def __call__(self, inputs: Sequence[Tensor], assigned: Sequence[Tensor | None]) -> Sequence[Tensor]:
        if (error := refusal(self._program)) is not None:
            raise error
        return self._compiled(inputs, assigned)

    def stats(self) -> Mapping[str, object]:
        return self._compiled.stats()

    def close(self) -> None:
        self.closed = True


class Picky:
    """The reference engine on a chip that lacks some operators."""

    name = "reference"

    def __init__(self, late: bool) -> None:
        self.late = late

    def unavailable(self) -> Unavailable | None:
        return None

    def compile(self, program: Program, options: EngineOptions) -> Compiled:
        compiled = ReferenceEngine().compile(program, options)
        if self.late:
            return Late(program, compiled)
        if (error := refusal(program)) is not None:
            raise error
        return compiled


@pytest.fixture(params=[False, True], ids=["early", "late"], autouse=True)
def _picky(request: pytest.FixtureRequest) -> Iterator[None]:
    register_engine("picky", lambda: Picky(request.param))
    yield
    del ENGINES["picky"]


def compiled(function: Callable[..., Any], *args: Any, told: list[SplitExecutable] | None = None) -> Any:
    see = None if told is None else told.append
    return compile_graph(trace(function, args), args, engine="picky", fallback="eager", see_split=see)


def mixed(x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.sinh(x * 2) + 1
    return torch.relu(torch.sinh(y)), torch.erf(y).sum() * x


def test_what_the_chip_lacks_runs_eagerly_and_the_rest_is_compiled() -> None:
    x, told = torch.randn(4, 4), list[SplitExecutable]()
    run = compiled(mixed, x, told=told)
    for _ in range(2):
        for got, want in zip(run(x), mixed(x), strict=True):
            torch.testing.assert_close(got, want)
    found = [run, *run.pieces.values(), *(piece for one in told for piece in one.pieces.values())]
    assert {one.target for each in found for one in each.eager} == {"aten.sinh.default", "aten.erf.default"}
    reasons = [one.reason for one in run.eager]
    assert (
        reasons.count("the engine has no program for Sinh on this chip") == 2
    )  # though the engine named one
    assert len(run.explain()["eager"]) == run.stats()["eager"] == len(reasons)
    run.close()


def test_a_write_to_an_argument_happens_once() -> None:
    def step(x: Tensor) -> Tensor:
        x.add_(1)
        return torch.sinh(x)

    x = torch.zeros(3)
    run = compiled(step, x.clone())
    assert torch.equal(run(x)[0], torch.sinh(torch.ones(3)))
    assert torch.equal(x, torch.ones(3))


def test_two_threads_may_make_the_first_call() -> None:
    x, start, right = torch.randn(64), threading.Barrier(4), list[bool]()
    run = compiled(mixed, x)

    def call() -> None:
        start.wait()
        right.append(torch.equal(run(x)[0], mixed(x)[0]))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 4


def test_where_an_error_is_asked_for_it_names_the_operators_and_their_lines() -> None:
    x = torch.randn(4)
    graph = trace(lambda x: torch.sinh(x) * 2, (x,))

    def compile_and_call() -> None:
        compile_graph(graph, (x,), engine="picky")(x)

    with pytest.raises(
        UnsupportedGraphError, match=r"aten.sinh.default \(1x\): the engine has no program for Sinh"
    ):
        compile_and_call()


def test_a_graph_that_the_engine_does_not_compile_at_all_runs_eagerly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failed(program: Program) -> EngineError:
        return CompilationFailed("the graph engine failed to compile graph g: InferShape of node y\n  more")

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        x.mul_(2)
        return x + 1, x.t()

    monkeypatch.setattr(f"{__name__}.refusal", failed)
    x, told = torch.ones(2, 3), list[SplitExecutable]()
    run = compiled(step, x.clone(), told=told)
    for turn in (2, 4):
        y, turned = run(x)
        assert torch.equal(x, torch.full((2, 3), float(turn)))
        assert torch.equal(y, x + 1)
        assert torch.equal(turned, x.t())
    (left,) = run.eager
    assert left.target == "the whole graph, from here"
    assert left.reason == "the graph engine failed to compile graph g: InferShape of node y"
    assert len(told) == isinstance(run, Executable)  # who compiles sees it otherwise
    with pytest.raises(CompilationFailed, match="InferShape of node y"):
        compile_graph(trace(torch.relu, (x,)), (x,), engine="picky")(x)


def test_another_error_of_the_engine_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise EngineError("there is no memory for graph g")

    x = torch.randn(4)
    monkeypatch.setattr(Late, "__call__", fails)
    monkeypatch.setattr(ReferenceEngine, "compile", lambda *_: Late(*_[1:]))
    with pytest.raises(EngineError, match="no memory"):
        compiled(torch.relu, x)(x)


def test_a_graph_that_the_engine_takes_keeps_nothing_for_the_other_case() -> None:
    x = torch.randn(4)
    run = compiled(lambda x: torch.relu(x) * 2, x)
    assert isinstance(run, Executable)
    run(x)
    assert run._instead is None
    assert not run.eager
