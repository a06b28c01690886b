"""Compiles an FX graph into something that runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, overload

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.autograd import profiler

from air_geir._averages import AveragedGroups
from air_geir._bisect import nodes_left_out
from air_geir._engines import choose_engine, generator_for, options_for, why
from air_geir._fallback import SplitExecutable, compile_split, run_whole
from air_geir._refused import by_operators
from air_geir.dump import dump, dump_path
from air_geir.engines import Idle, bind, held, source_of
from air_geir.errors import CompilationFailed, EngineError, UnsupportedGraphError
from air_geir.ge_passes import Report, optimize
from air_geir.gears import find_gears, guard_gears
from air_geir.ir import Graph
from air_geir.lowering import Table, lower_program
from air_geir.program import ArgInput, Program
from air_geir.verify import verify
from air_graph import all_fake, device_kinds, fake_mode_of, inputs_in_flight, lay_out_as_on_npu, waiting
from air_graph.executors import Executor, WholeGraph
from air_graph.forks import new_lock
from air_graph.pieces import LeftOut
from air_graph.spans import span, span_name

log = logging.getLogger(__name__)

Observe = Callable[[str, Graph], None]
"""Called with the name of a stage and the graph at that stage."""


class Executable(WholeGraph):
    """A compiled graph: call it with the graph's arguments."""

    def __init__(
        self,
        run: Callable[..., list[Any]],
        program: Program,
        compiled: Any,
        engine: str,
        report: Report,
        plain: Callable[..., Any],
        verify: Literal["always", "first", "never"] = "never",
        name: str = "graph",
        because: str = "",
    ) -> None:
        self.name = name
        self._plain = plain  # the graph by torch's operators
        self.because = because
        self.program = program
        self.report = report
        self.engine = engine
        self._started = {"always": held(program, run), "first": self._first}.get(verify, run)
        self._unchecked = run
        self._compiled = compiled
        self._split: Executor | None = None
        self._lock = new_lock()
        self._run: Callable[..., list[Any]] = self._started
        self._instead: Callable[[EngineError], SplitExecutable] | None = None
        self._followed: tuple[AveragedGroups, Callable[[], Executor]] | None = None

    def follow(self, averaged: AveragedGroups, again: Callable[[], Executor]) -> None:
        """Has `again` compile the graph for groups of other sizes, as soon as their names mean such ones."""
        self._followed = averaged, again

    def _follow(self, averaged: AveragedGroups, again: Callable[[], Executor]) -> None:
        with self._lock:
            if averaged.are_of_other_sizes():
                fresh = again()
                self.close()
                self._split = self._run = fresh

    def otherwise(self, instead: Callable[[EngineError], SplitExecutable]) -> None:
        """Has `instead` make what runs from now on, where the engine refuses the graph in its first call."""
        self._instead, self._run = instead, self._attempt

    def _attempt(self, *args: Any) -> list[Any]:
        """The first call, which may be where the engine compiles the graph."""
        try:
            results = self._started(*args)
        except EngineError as error:
            with self._lock:
                if self._split is None and self._instead is not None:
                    self._split = self._instead(error)
                    self._run, self._instead = self._split, None
                    self._followed = None  # its pieces do that by themselves
                    self._compiled.close()
            if self._split is None:
                raise
            split: list[Any] = self._split(*args)
            return split
        if self._run == self._attempt:
            self._run = self._started
        self._instead = None
        return results

    def _first(self, *args: Any) -> list[Any]:
        """The first call, compared with what eager gives; later calls are not."""
        results = held(self.program, self._unchecked)(*args)
        self._run = self._started = self._unchecked
        return results

    def __call__(self, *args: Any) -> list[Any]:
        if self._followed is not None:
            self._follow(*self._followed)
        try:
            if profiler._is_profiler_enabled:
                with span(span_name("run", self.name)):
                    return self._run(*args)
            return self._run(*args)
        except Exception:
            if (mode := fake_mode_of(args)) is None:
                raise
        with mode, torch.no_grad():  # no engine computes with what has no memory
            return list(self._plain(*all_fake(args, mode)))

    @property
    def source(self) -> str:
        """The function between the caller's arguments and the engine, as Python."""
        return source_of(self.program) if self._split is None else self._split.source

    @property
    def pieces(self) -> Mapping[str, Executor]:
        """Those that run instead, where the engine refused the graph in its first call."""
        return super().pieces if self._split is None else self._split.pieces

    @property
    def eager(self) -> tuple[LeftOut, ...]:
        """What runs eagerly between them."""
        return () if self._split is None else self._split.eager

    def explain(self) -> dict[str, Any]:
        """The engine, the calling convention, what each pass did, and the graph."""
        if self._split is not None:
            return self._split.explain()
        return {
            "engine": self.engine,
            "because": self.because,
            "call": self.source.splitlines(),
            "passes": self.report.explain().splitlines(),
            "nodes": [repr(node) for node in self.program.graph],
        }

    def stats(self) -> dict[str, Any]:
        """Numbers about the compilation and the calls."""
        if self._split is not None:
            return self._split.stats()
        return {"nodes": len(self.program.graph), **self._compiled.stats()}

    def close(self) -> None:
        """Frees what the engine holds; the object cannot be called afterwards."""
        self._instead = None
        (self._compiled if self._split is None else self._split).close()


@overload
def compile_graph(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    settings: Any = None,
    engine: str = "auto",
    static_inputs: Sequence[int] = (),
    name: str = "graph",
    decompositions: Table | None = None,
    fallback: Literal["error"] = "error",
    observe: Observe | None = None,
    dump_nodes: Collection[str] = (),
    backward: bool = False,
    see_split: Callable[[SplitExecutable], None] | None = None,
) -> Executable: ...


@overload
def compile_graph(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    settings: Any = None,
    engine: str = "auto",
    static_inputs: Sequence[int] = (),
    name: str = "graph",
    decompositions: Table | None = None,
    fallback: Literal["eager"],
    observe: Observe | None = None,
    dump_nodes: Collection[str] = (),
    backward: bool = False,
    see_split: Callable[[SplitExecutable], None] | None = None,
) -> Executable | SplitExecutable: ...


def compile_graph(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    settings: Any = None,
    engine: str = "auto",
    static_inputs: Sequence[int] = (),
    name: str = "graph",
    decompositions: Table | None = None,
    fallback: Literal["error", "eager"] = "error",
    observe: Observe | None = None,
    dump_nodes: Collection[str] = (),
    backward: bool = False,
    see_split: Callable[[SplitExecutable], None] | None = None,
) -> Executable | SplitExecutable:
    """Compiles an AOT inference graph: functional, input mutations kept as `copy_`.

    Args:
        gm: the graph.
        example_inputs: what it was traced with.
        settings: resolved settings of air-config; None takes the defaults.
        engine: name of an engine; `"auto"` takes the best one for the device of the inputs.
        static_inputs: arguments whose address stays the same from call to call.
        name: name of the graph, used in files and messages.
        decompositions: overloads to write with others, before converters and torch's own table.
        fallback: what to do with operators nothing translates: `"error"` lists them all, `"eager"` runs them with
            torch between compiled pieces.
        observe: called with `"original"` and `"optimized"` and the graph, before and after the passes on it.
        dump_nodes: FX nodes whose tensors `dump_config` writes, beside those of its `dump_layer`.
        backward: the graph is the backward half of a training step; what the forward half saved may have other strides
            than the examples.
        see_split: called with what runs instead of a graph, or a piece, of which the engine refused an operator in
            the first call.
    """
    if "npu" in device_kinds(gm.graph):
        lay_out_as_on_npu(gm)
    wanted = _Request(settings, engine, static_inputs, decompositions, observe, dump_nodes, backward)
    parts = _Parts(gm, wanted, fallback == "eager", see_split)
    if left_out := nodes_left_out(gm):
        return compile_split(gm, name, left_out, parts.compile)
    try:
        return parts.compile(gm, example_inputs, name=name)
    except UnsupportedGraphError as refused:
        if fallback != "eager":
            raise
        log.info("graph %s: %s", name, refused)
        return compile_split(gm, name, refused.found, parts.compile)


@dataclass(frozen=True)
class _Request:
    """What the caller of `compile_graph` asked for, for each graph that is compiled."""

    settings: Any
    engine: str
    static_inputs: Sequence[int]
    decompositions: Table | None
    observe: Observe | None
    dump_nodes: Collection[str]
    any_layout: bool
    """Whether arguments may have other strides than their examples."""


@dataclass(frozen=True)
class _Parts:
    """Compiles a graph or pieces of it, and makes what runs instead of one that an engine does not take."""

    gm: fx.GraphModule
    wanted: _Request
    may_run_eagerly: bool
    see_split: Callable[[SplitExecutable], None] | None

    def compile(
        self, part: fx.GraphModule, inputs: Sequence[Any], *, name: str
    ) -> Executable | SplitExecutable:
        is_whole = part is self.gm
        wanted = self.wanted if is_whole else replace(self.wanted, static_inputs=(), any_layout=True)
        try:
            run = _compile(part, inputs, name, wanted)
        except CompilationFailed as error:
            if not self.may_run_eagerly:
                raise
            eager = run_whole(part, name, error)
            return eager if is_whole else self._seen(eager)
        if averaged := AveragedGroups(part):
            run.follow(averaged, partial(_compile, part, inputs, name, wanted))
        run.otherwise(partial(self._instead, part, name, run.program.graph))
        return run

    def _instead(self, part: fx.GraphModule, name: str, graph: Graph, error: EngineError) -> SplitExecutable:
        """What runs instead of a part that the engine refuses in its first call."""
        refused = by_operators(error, part, graph)
        if not self.may_run_eagerly:
            if refused is not None:
                raise refused from error
            raise error
        if refused is not None:
            return self._seen(compile_split(part, name, refused.found, self.compile))
        if isinstance(error, CompilationFailed):
            return self._seen(run_whole(part, name, error))
        raise error

    def _seen(self, split: SplitExecutable) -> SplitExecutable:
        if self.see_split is not None:
            self.see_split(split)
        return split


def _compile(gm: fx.GraphModule, example_inputs: Sequence[Any], name: str, wanted: _Request) -> Executable:
    settings = wanted.settings
    gears = find_gears(example_inputs)
    if gears:
        guard_gears(example_inputs, gears)
    program = lower_program(
        gm,
        example_inputs,
        name=name,
        static_inputs=wanted.static_inputs,
        decompositions=wanted.decompositions,
    )
    # A piece takes what eager operators give, a backward half what the forward half saved.
    if wanted.any_layout:
        program = _with_arguments(program, contiguous=False)
    values = [node.meta.get("val") for node in gm.graph.nodes]  # a graph without inputs has a device, too
    chosen = choose_engine(wanted.engine, [*example_inputs, *values])
    if chosen.name == "reference":  # it reads strided tensors where they are
        program = _with_arguments(program, contiguous=True)
    with unset_fake_temporarily():  # constants of the graph are real, and so is what passes add to it
        _show(settings, program, "original", wanted.observe)
        report = optimize(program, **_passes(settings))
        verify(program.graph)
        _show(settings, program, "optimized", wanted.observe)
        options = options_for(chosen, settings, program, gears, wanted.dump_nodes)
        try:
            compiled = Idle() if program.is_idle else chosen.compile(program, options)
        except EngineError as error:
            if (refused := by_operators(error, gm, program.graph)) is None:
                raise
            raise refused from error
    run = waiting(bind(program, compiled, generator=generator_for(chosen)), inputs_in_flight(gm))
    checks = _verified(settings, chosen.name)
    because = why(wanted.engine, chosen)
    return Executable(run, program, compiled, chosen.name, report, gm.forward, checks, name, because)


def _verified(settings: Any, engine: str) -> Literal["always", "first", "never"]:
    """Which calls are compared with eager: on the reference engine always the first one."""
    if settings is not None and settings.air.verify:
        return "always"
    return "first" if engine == "reference" else "never"


def _show(settings: Any, program: Program, stage: str, observe: Observe | None) -> None:
    """Writes the graph where the settings ask for it, and gives it to `observe`."""
    wanted = settings.debug.graph_dump if settings is not None else None
    if wanted is not None and wanted.type is not None:
        dump(program.graph, dump_path(wanted.path or ".", stage, wanted.type))
    if observe is not None:
        observe(stage, program.graph)


def _passes(settings: Any) -> dict[str, bool]:
    """What the settings say about the passes over the program."""
    if settings is None:
        return {}
    chosen = settings.experimental_config
    return {"references": bool(chosen.enable_ref_data), "fold_views": bool(chosen.enable_view_optimize)}


def _with_arguments(program: Program, *, contiguous: bool) -> Program:
    inputs = tuple(
        replace(b, contiguous=contiguous) if isinstance(b, ArgInput) else b for b in program.inputs
    )
    return replace(program, inputs=inputs)
