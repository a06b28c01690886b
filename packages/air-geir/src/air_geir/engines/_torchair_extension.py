"""Engine `torchair_extension`: the Graph Engine through the module in the torch_npu wheel, in process, zero copy."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import torch

from air_geir.engines import _extension as extension
from air_geir.engines._ahead import ONE_AT_A_TIME, start_early
from air_geir.engines._failures import failure, of_a_run
from air_geir.engines._formats import InputFormats
from air_geir.engines._groups import name_communicators
from air_geir.engines._kept import entry_of
from air_geir.engines._protocol import Compiled, EngineOptions, Unavailable, closed
from air_geir.engines._results import result_memory
from air_geir.engines._serialized import SerializedCalls
from air_geir.file import to_bytes
from air_geir.program import Program


class TorchairExtension:
    """Compiles with GE on an Ascend device (or air-sim)."""

    name = extension.NAME

    def unavailable(self) -> Unavailable | None:
        """Why it cannot be used here."""
        return extension.unavailable()

    def compile(self, program: Program, options: EngineOptions) -> Compiled:
        """Start the session; the graph itself is compiled at the first call, which knows the inputs' formats."""
        module = extension.load()
        extension.SESSION.require(module, options.session)
        again = partial(CompiledOnDevice, module, program, options)
        compiled = again()
        ahead = start_early(compiled, program.graph, options, ONE_AT_A_TIME)
        return SerializedCalls(compiled, program.graph, ahead, again=again)


class CompiledOnDevice:
    """A graph of the Graph Engine. It runs on the stream that is current at its first call."""

    def __init__(self, module: ModuleType, program: Program, options: EngineOptions) -> None:
        self._module = module
        self._base: Any = module.TorchNpuGraphBase(options.name)
        self._run: Any = None
        self._take = result_memory(program)
        self._formats = InputFormats(program)
        self._program = program
        self._options = options
        self._stats: dict[str, object] = {"engine": extension.NAME, "compiled": False}

    def __call__(
        self, inputs: Sequence[torch.Tensor], assigned: Sequence[torch.Tensor | None]
    ) -> Sequence[torch.Tensor]:
        if self._formats.describe(inputs):
            self._compile_anew()
        run = self._run
        if run is None:
            run = self._prepare(inputs)
        given = self._take(inputs, assigned)
        try:
            outputs: Sequence[torch.Tensor] = run((inputs, given, None))
        except RuntimeError as error:
            raise of_a_run(error, self._options.name) from error
        return outputs

    def _prepare(self, inputs: Sequence[torch.Tensor]) -> Any:
        if self._base is None:
            raise closed(self._options.name)
        if not self._stats["compiled"]:
            name_communicators(self._program.graph)
            with ONE_AT_A_TIME:
                self._compile(inputs)
        self._run = _plain_first(self._base.run, inputs)
        return self._run

    def _compile_anew(self) -> None:
        """What was compiled is for inputs in other formats."""
        if self._base is not None and self._stats["compiled"]:
            self._run = None
            self._base = self._module.TorchNpuGraphBase(self._options.name)
            self._stats["compiled"] = False

    def for_dense_inputs(self) -> None:
        """Compiles before the inputs are known, for what most of them are."""
        self._compile(())

    def _compile(self, inputs: Sequence[torch.Tensor]) -> None:
        graph = self._program.graph
        started = time.perf_counter()
        model = to_bytes(graph)
        placements = [int(p) for p in self._program.input_placements]
        dtypes = [d.api for d in self._program.output_dtypes]
        shapes = [list(node.output.desc.file_shape()) for node in graph.inputs]
        results = [list(s) for s in self._program.output_shapes()]
        try:
            with entry_of(graph, self._options, extension.NAME) as kept:
                self._base.load(model, {**self._options.graph, **kept.options}, placements, dtypes, 1)
                self._base.set_hint_shape(shapes, results)
                if "aoe_mode" in self._options.graph:
                    self._base.auto_tune((list(inputs), None))
                loaded = time.perf_counter()
                self._base.compile()
        except RuntimeError as error:
            raise failure("compile", graph.name, str(error)) from error
        self._stats.update(
            compiled=True,
            model_bytes=len(model),
            load_s=loaded - started,
            compile_s=time.perf_counter() - loaded,
            summary=str(self._base.summary()),
            kept=kept.state,
        )

    def stats(self) -> Mapping[str, object]:
        """Sizes and times of the compilation, and the engine's own summary."""
        return dict(self._stats)

    def close(self) -> None:
        """Drop the graph; the engine frees its memory."""
        self._run = None
        self._base = None


def _plain_first(run: Any, inputs: Sequence[torch.Tensor]) -> Any:
    """The extension takes tensors and parameters of no other class; Dynamo guards what class each one has."""
    others = [
        at for at, tensor in enumerate(inputs) if type(tensor) not in (torch.Tensor, torch.nn.Parameter)
    ]
    if not others:
        return run

    def plain(given: tuple[Sequence[torch.Tensor], Any, Any]) -> Any:
        tensors = list(given[0])
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            for at in others:
                tensors[at] = tensors[at].as_subclass(torch.Tensor)
        return run((tensors, *given[1:]))

    return plain
