"""Engine `ge_session`: the Graph Engine through a small binding of our own, without a module of the vendor's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count

import torch

from air_geir.engines import _ge_calls as ge
from air_geir.engines import native
from air_geir.engines._ahead import ONE_AT_A_TIME, start_early
from air_geir.engines._failures import of_a_run
from air_geir.engines._formats import InputFormats
from air_geir.engines._groups import name_communicators
from air_geir.engines._kept import entry_of
from air_geir.engines._present import no_npu
from air_geir.engines._protocol import Compiled, EngineOptions, Unavailable, closed
from air_geir.engines._results import result_memory
from air_geir.engines._serialized import SerializedCalls
from air_geir.errors import EngineError
from air_geir.file import to_bytes
from air_geir.program import Program
from air_geir.types import DataType, Placement

NAME = "ge_session"
_ids = count(1_000_000)
"""Numbers of graphs, far from those that another user of the engine in this process gives."""


class GeSession:
    """Compiles with GE on an Ascend device (or air-sim), by GE's public session."""

    name = NAME

    def unavailable(self) -> Unavailable | None:
        """Why it cannot be used here."""
        if (absent := no_npu(NAME)) is not None:
            return absent
        if native.runner() is None:
            advice = "install CANN and source its set_env.sh, so that the loader finds the library"
            return Unavailable(NAME, f"{native.LIBRARY} cannot be loaded", advice)
        if lack := native.missing():
            return Unavailable(NAME, *lack)
        return None

    def compile(self, program: Program, options: EngineOptions) -> Compiled:
        """Start the session; the graph is compiled at the first call, as with the extension."""
        if "aoe_mode" in options.graph:
            raise EngineError(
                f"engine {NAME} does not tune graphs (aoe_config)",
                where=f"graph {options.name}",
                advice="use engine='torchair_extension', or leave aoe_config unset",
            )
        again = partial(CompiledBySession, ge.started(options.session), program, options)
        compiled = again()
        ahead = start_early(compiled, program.graph, options, ONE_AT_A_TIME)
        return SerializedCalls(compiled, program.graph, ahead, again=again)


class CompiledBySession:
    """A graph in the session of this process."""

    def __init__(self, calls: ge.Calls, program: Program, options: EngineOptions) -> None:
        self._calls: ge.Calls | None = calls
        self._program = program
        self._options = options
        self._made: tuple[int, ge.Summary] | None = None
        self._id: int | None = None
        self._memory: list[torch.Tensor] = []
        self._summary: ge.Summary | None = None
        self._run: ge.Run | None = None
        self._take = result_memory(program)
        self._formats = InputFormats(program)
        self._stats: dict[str, object] = {"engine": NAME, "compiled": False}

    def __call__(
        self, inputs: Sequence[torch.Tensor], assigned: Sequence[torch.Tensor | None]
    ) -> Sequence[torch.Tensor]:
        self._formats.require_dense(inputs, NAME)
        run = self._run or self._prepare(inputs)
        given = self._take(inputs, assigned)
        passing = self._summary and self._passing_memory(self._summary)
        try:
            return run(inputs, given)
        except (RuntimeError, MemoryError, ValueError) as error:
            raise of_a_run(error, self._options.name) from error
        finally:
            del passing  # the stream runs before who takes it next

    def _passing_memory(self, summary: ge.Summary) -> torch.Tensor | None:
        assert self._calls is not None
        assert self._id is not None
        return self._calls.give_passing_memory(self._id, summary, self._options.name)

    def _prepare(self, inputs: Sequence[torch.Tensor]) -> ge.Run:
        calls = self._calls
        if calls is None:
            raise closed(self._options.name)
        graph = self._program.graph
        if self._made is None:
            name_communicators(graph)
            with ONE_AT_A_TIME:
                self._compile(calls)
        assert self._made is not None
        number, summary = self._made
        try:
            if summary.shapes is not None:
                self._memory = calls.give_memory(number, summary, graph.name)
                self._summary = summary if summary.fixed != summary.features else None
            run = self._prepared(calls, number, inputs, is_fixed=summary.shapes is not None)
        except BaseException:
            self._made = None
            calls.remove(number)
            raise
        self._id, self._run = number, run
        self._stats["compiled"] = True
        return run

    def for_dense_inputs(self) -> None:
        """Compiles before the inputs are known: this engine takes no others."""
        assert self._calls is not None
        self._compile(self._calls)

    def _compile(self, calls: ge.Calls) -> None:
        graph = self._program.graph
        number = next(_ids)
        model = to_bytes(graph)
        with entry_of(graph, self._options, NAME) as kept:
            calls.add(number, self._options.name, model, {**self._options.graph, **kept.options})
            try:
                calls.compile(number, graph.name)
                summary = calls.summary(number, len(self._program.output_dtypes), graph.name)
            except BaseException:
                calls.remove(number)
                raise
        self._made = number, summary
        self._stats.update(
            model_bytes=len(model),
            static=summary.shapes is not None,
            constant_bytes=summary.constants,
            feature_bytes=summary.features,
            fixed_bytes=summary.fixed,
            kept=kept.state,
        )

    def _prepared(
        self, calls: ge.Calls, number: int, inputs: Sequence[torch.Tensor], *, is_fixed: bool
    ) -> ge.Run:
        program = self._program
        given: list[ge.Port] = [
            (DataType.of(tensor.dtype).api, tensor.dtype, place is Placement.HOST)
            for tensor, place in zip(inputs, program.input_placements, strict=True)
        ]
        results: list[ge.Port] = [(kind.api, kind.torch, False) for kind in program.output_dtypes]
        return calls.prepared(number, given, results, is_fixed=is_fixed and program.is_static)

    def stats(self) -> Mapping[str, object]:
        """Sizes of the compilation."""
        return dict(self._stats)

    def close(self) -> None:
        """Take the graph out of the session; its memory goes back when the device is done with it."""
        if self._calls is not None and self._made is not None:
            torch.get_device_module("npu").synchronize()
            self._calls.remove(self._made[0])
        self._calls, self._made, self._id, self._memory, self._run = None, None, None, [], None
