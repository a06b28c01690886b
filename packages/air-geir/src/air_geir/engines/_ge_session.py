"""Engine `ge_session`: the Graph Engine through a small binding of our own, without a module of the vendor's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

import torch

from air_geir.engines import _ge_calls as ge
from air_geir.engines import native
from air_geir.engines._ahead import ONE_AT_A_TIME, begun, may_go_ahead
from air_geir.engines._groups import name_communicators
from air_geir.engines._in_turn import InTurn
from air_geir.engines._kept import entry_of
from air_geir.engines._present import no_npu
from air_geir.engines._protocol import Compiled, EngineOptions, Unavailable
from air_geir.engines._results import taker
from air_geir.engines._torchair_extension import take_formats
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
        if native.compiler() is None:
            return Unavailable(
                NAME, "no C++ compiler was found (CXX, g++, clang++)", "install g++, or set CXX"
            )
        return None

    def compile(self, program: Program, options: EngineOptions) -> Compiled:
        """Start the session; the graph is compiled at the first call, as with the extension."""
        if "aoe_mode" in options.graph:
            raise EngineError(
                f"engine {NAME} does not tune graphs (aoe_config)",
                where=f"graph {options.name}",
                advice="use engine='torchair_extension', or leave aoe_config unset",
            )
        compiled = CompiledBySession(ge.started(options.session), program, options)
        if not may_go_ahead(program.graph, options):
            return InTurn(compiled)
        return InTurn(compiled, begun(compiled.for_dense_inputs, ONE_AT_A_TIME, options.name))


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
        self._take = taker(program)
        self._last: Sequence[torch.Tensor] = ()
        self._types = program.output_dtypes
        self._places = list(program.input_placements)
        self._kinds = ["npu" if place is Placement.DEVICE else "cpu" for place in self._places]
        self._rows: tuple[ge.Row, ge.Row] | None = None
        self._static = False
        self._stats: dict[str, object] = {"engine": NAME, "compiled": False}

    def __call__(
        self, inputs: Sequence[torch.Tensor], assigned: Sequence[torch.Tensor | None]
    ) -> Sequence[torch.Tensor]:
        if self._calls is None:
            raise EngineError(f"graph {self._options.name} was closed")
        if self._id is None:
            self._prepare(self._calls, inputs)
        assert self._id is not None
        given = self._take(inputs, assigned)
        places, name = self._places, self._options.name
        rows = self._rows
        if rows is None:
            described = [self._described(at, tensor, places[at]) for at, tensor in enumerate(inputs)]
            results = [
                ge.Described() if t is None else ge.Described.of(t, k.api, 1)
                for t, k in zip(given, self._types, strict=True)
            ]
            rows = ge.Row(described), ge.Row(results)
            self._rows = rows if self._static and all(t is not None for t in given) else None
        else:
            for at, tensor in enumerate(inputs):
                if tensor.device.type != self._kinds[at]:
                    self._described(at, tensor, places[at])  # says so
            rows[0].at(inputs)
            rows[1].at([t for t in given if t is not None])
        passing = self._summary and self._calls.give_passing_memory(self._id, self._summary, name)
        taken = self._calls.run(self._id, *rows, name)
        del passing  # the stream runs before who takes it next
        self._last = inputs  # the engine may read those on the host after the call
        return [
            _result(found, kind, taken, name) if tensor is None else tensor
            for tensor, found, kind in zip(given, taken.results, self._types, strict=True)
        ]

    def _described(self, at: int, tensor: torch.Tensor, place: Placement) -> ge.Described:
        wanted = "npu" if place is Placement.DEVICE else "cpu"
        if tensor.device.type != wanted:
            raise EngineError(
                f"input {at} lies on {tensor.device.type}, the graph wants it on {wanted}",
                where=f"graph {self._options.name}",
            )
        return ge.Described.of(tensor, DataType.of(tensor.dtype).api, int(place))

    def _prepare(self, calls: ge.Calls, inputs: Sequence[torch.Tensor]) -> None:
        graph = self._program.graph
        take_formats(graph, self._program.inputs, inputs)
        for node in graph.inputs:
            if node.output.desc.format.is_internal:
                raise EngineError(
                    f"input {node.name} lies in the internal format {node.output.desc.format.name}",
                    where=f"graph {graph.name}",
                    advice=f"engine {NAME} takes dense inputs: use engine='torchair_extension' for such weights",
                )
        if self._made is None:
            name_communicators(graph)
            with ONE_AT_A_TIME:
                self._compile(calls)
        assert self._made is not None
        number, summary = self._made
        if summary.shapes is not None:
            self._static = self._program.is_static
            self._summary = summary if summary.fixed != summary.features else None
            try:
                self._memory = calls.give_memory(number, summary, graph.name)
            except BaseException:
                self._made = None
                calls.remove(number)
                raise
        self._id = number
        self._stats["compiled"] = True

    def for_dense_inputs(self) -> None:
        """Compiles before the inputs are known: this engine takes no others."""
        assert self._calls is not None
        self._compile(self._calls)

    def _compile(self, calls: ge.Calls) -> None:
        graph = self._program.graph
        number = next(_ids)
        model = to_bytes(graph)
        with entry_of(graph, self._options, NAME) as kept:
            calls.add(number, self._options.name, model, {**self._options.graph, **kept.told})
            try:
                calls.compile(number, graph.name)
            except BaseException:
                calls.remove(number)
                raise
        try:
            summary = calls.summary(number, len(self._types), graph.name)
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

    def stats(self) -> Mapping[str, object]:
        """Sizes of the compilation."""
        return dict(self._stats)

    def close(self) -> None:
        """Take the graph out of the session; its memory goes back when the device is done with it."""
        if self._calls is not None and self._made is not None:
            ge.npu().synchronize()
            self._calls.remove(self._made[0])
        self._calls, self._made, self._id, self._memory, self._last = None, None, None, [], ()


def _result(found: ge.Described, kind: DataType, taken: ge.Taken, name: str) -> torch.Tensor:
    """A result the engine took memory for: the tensor of that memory, with the sizes it was given."""
    sizes = list(found.dims[: found.rank])
    block = taken.blocks.get(found.at or 0)
    if block is None or found.type != kind.api:
        raise EngineError(
            f"the graph engine gave a result of type {found.type} (the graph has {kind.api}) at an address "
            f"{'that' if block is None else 'which'} its allocator {'did not give' if block is None else 'gave'}",
            where=f"graph {name}",
            advice="use engine='torchair_extension'",
        )
    return ge.over(block, sizes, kind.torch)
