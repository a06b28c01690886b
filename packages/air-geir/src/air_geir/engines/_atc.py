"""Engine `atc`: each graph becomes an offline model, compiled by CANN's program in a process of its own.

It compiles more slowly than a session. An offline model has fixed sizes: a graph of open sizes becomes one model for
each set of sizes that it is called with. In return, a compiler that fails or is killed does not take the caller along.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import torch

from air_geir import file
from air_geir.engines._ahead import start_early
from air_geir.engines._formats import InputFormats
from air_geir.engines._groups import name_communicators
from air_geir.engines._kept import FOLDER_OPTION, KEY_OPTION, entry_of
from air_geir.engines._present import no_npu
from air_geir.engines._protocol import Compiled, EngineOptions, Unavailable, closed
from air_geir.engines._results import result_memory
from air_geir.engines._serialized import SerializedCalls
from air_geir.engines._sizes import OpenSizes, Sizes, undecided
from air_geir.errors import CompilationFailed, EngineError, OptionError
from air_geir.ir import Graph
from air_geir.offline import OfflineModel, compile_air, load_om, missing_module, missing_program, soc_name
from air_geir.program import Program

log = logging.getLogger(__name__)
NAME: Final = "atc"
MAX_LOADED: Final = 64
"""Most offline models of one graph that are loaded; the one called longest ago is unloaded for a new one."""
WARN_AFTER: Final = 8
"""Number of compilations of one graph at which a warning is logged."""
ATC_NAMES: Final = {
    "ge.deterministic": "deterministic",
    "ge.opSelectImplmode": "op_select_implmode",
    "ge.fusionSwitchFile": "fusion_switch_file",
    "ge.enableSingleStream": "enable_single_stream",
    "ge.oo.level": "oo_level",
    "ge.oo.constantFolding": "oo_constant_folding",
    "ge.oo.deadCodeElimination": "oo_dead_code_elimination",
    "ge.aicoreNum": "aicore_num",
    "ge.optimizationSwitch": "optimization_switch",
}
"""Options of the Graph Engine, and what `atc` calls them."""
WITHOUT_ATC_NAME: Final = {
    "ge.exec.allow_hf32": "10",
    "ge.deterministicLevel": "0",
    "ge.exec.enableEngineParallel": "0",
    "ge.exportCompileStat": "2",
    "ge.featureBaseRefreshable": "0",
    "ge.tiling_schedule_optimize": "0",
    "ge.exec.static_model_ops_lower_limit": None,
    "aoe_mode": None,
}
"""Options that `atc` does not have, with the value that it uses."""


PROCESSES: Final = threading.BoundedSemaphore(os.cpu_count() or 1)
"""One for each compiler that runs."""


class Atc:
    """Compiles with CANN's program `atc`, and runs by pyACL on an Ascend device (or air-sim)."""

    name = NAME

    def unavailable(self) -> Unavailable | None:
        """Why it cannot be used here."""
        if (absent := no_npu(NAME)) is not None:
            return absent
        reason = missing_program() or missing_module()
        if reason is not None:
            return Unavailable(NAME, reason, "install CANN's toolkit and source its set_env.sh")
        return None

    def compile(self, program: Program, options: EngineOptions) -> Compiled:
        """Check that an offline model can be had; it is compiled at the first call, as with the other engines."""
        reason = _refused(program)
        if reason is not None:
            raise EngineError(
                f"engine {NAME} {reason}",
                where=f"graph {options.name}",
                advice="use engine='torchair_extension' or 'ge_session'",
            )
        again = partial(CompiledByAtc, program, options, atc_options(options))
        compiled = again()
        if compiled.is_open:
            return SerializedCalls(compiled, program.graph, again=again)
        ahead = start_early(compiled, program.graph, options, PROCESSES)
        return SerializedCalls(compiled, program.graph, ahead, again=again)


def _refused(program: Program) -> str | None:
    """Why it cannot become an offline model."""
    if names := undecided(program):
        return f"compiles graphs of fixed sizes, and only values decide those of {', '.join(names[:4])}"
    if not program.graph.outputs:
        return "compiles graphs that have results, and this one does nothing but write into its arguments"
    return None


def atc_options(options: EngineOptions) -> dict[str, str]:
    """The options as `atc` spells them; one that `atc` does not have must be at its default."""
    told = {**options.session, **options.graph}
    lost = [f"{k} = {told[k]}" for k, usual in WITHOUT_ATC_NAME.items() if k in told and told[k] != usual]
    if "1" in told.get("frozenInput", ""):
        lost.append("frozenInput (experimental_config.frozen_parameter)")
    if lost:
        raise OptionError(
            f"engine {NAME} cannot be told {', '.join(lost)}: its program has no such option",
            where=f"graph {options.name}",
            advice="leave the setting at its default, or use engine='torchair_extension' or 'ge_session'",
        )
    return {word: told[key] for key, word in ATC_NAMES.items() if key in told}


class CompiledByAtc:
    """A graph as an offline model. The file lives as long as its compilation, unless it is kept for other processes."""

    def __init__(self, program: Program, options: EngineOptions, told: Mapping[str, str]) -> None:
        self._program, self._options, self._atc_options = program, options, told
        self._sizes = OpenSizes.of_program(program)
        self._models: dict[Sizes, OfflineModel] = {}
        self._compiled = 0
        self._fixed: OfflineModel | None = None  # of a graph without open sizes
        self._only: OfflineModel | None = None  # the same, when the inputs of a call have been looked at
        self._closed = False
        self._take = result_memory(program)
        self._formats = InputFormats(program)
        self._stats: dict[str, object] = {"engine": NAME, "compiled": False}

    @property
    def is_open(self) -> bool:
        """Whether its models depend on the sizes of a call."""
        return self._sizes is not None

    def __call__(
        self, inputs: Sequence[torch.Tensor], assigned: Sequence[torch.Tensor | None]
    ) -> Sequence[torch.Tensor]:
        self._formats.require_dense(inputs, NAME)
        model = self._only or self._model(inputs)
        # An offline model does not know that a result may lie where an input does: it gets memory of its own.
        targets = {at: t for at, t in enumerate(assigned) if t is not None}
        taken = self._take(inputs, [None if t is None else torch.empty_like(t) for t in assigned])
        results = [
            torch.empty(port.shape, dtype=port.dtype, device="npu") if t is None else t
            for t, port in zip(taken, model.outputs, strict=True)
        ]
        given = inputs if self._sizes is None else self._sizes.given(inputs)
        model.run([t.to("npu") if t.is_cpu else t for t in given], results)
        for at, target in targets.items():
            target.copy_(results[at])
            results[at] = target
        return results

    def _model(self, inputs: Sequence[torch.Tensor]) -> OfflineModel:
        """The model for the sizes of these inputs."""
        if self._closed:
            raise closed(self._options.name)
        if self._sizes is None:
            name_communicators(self._program.graph)
            if self._fixed is None:
                with PROCESSES:
                    self.for_dense_inputs()
            assert self._fixed is not None
            self._only = self._fixed
            return self._only
        key = self._sizes.of(inputs)
        model = self._models.pop(key, None)
        if model is None:
            model = self._compile_for(key, inputs, self._sizes)
        self._models[key] = model  # the last one of the dictionary is the latest
        return model

    def _compile_for(self, key: Sizes, inputs: Sequence[torch.Tensor], sizes: OpenSizes) -> OfflineModel:
        log.info("%s: an offline model for sizes %s", self._options.name, key)
        name_communicators(self._program.graph)
        if len(self._models) >= MAX_LOADED:
            self._models.pop(next(iter(self._models))).close()
        with PROCESSES:
            model = self._prepare(sizes.fixed(inputs))
        self._stats["models"] = len(self._models) + 1
        self._compiled += 1
        if self._compiled == WARN_AFTER:
            log.warning(
                "%s: engine %s has compiled %d offline models, one for each set of sizes and of integer arguments: "
                "pad inputs to a few sizes, pass a counter as a tensor, or use engine='torchair_extension'",
                self._options.name, NAME, WARN_AFTER,
            )  # fmt: skip
        return model

    def for_dense_inputs(self) -> None:
        """Compiles and loads before the inputs are known: this engine takes no others."""
        self._fixed = self._prepare(self._program.graph)

    def _prepare(self, graph: Graph) -> OfflineModel:
        with (
            entry_of(graph, self._options, NAME) as kept,
            tempfile.TemporaryDirectory(prefix="air_atc_") as own,
        ):
            folder, name = Path(kept.options.get(FOLDER_OPTION, own)), kept.options.get(KEY_OPTION, "graph")
            path = folder / f"{name}.om"
            if kept.state != "read":
                self._compile(graph, Path(own), path)
            size = path.stat().st_size
            model = load_om(path)
        try:
            self._fits(model, graph)
        except BaseException:
            model.close()
            raise
        self._stats.update(compiled=True, model_bytes=size, kept=kept.state)
        return model

    def _compile(self, graph: Graph, folder: Path, target: Path) -> None:
        file.write(graph, folder / "graph.air")
        compile_air(folder / "graph.air", target, soc=soc_name(), options=self._atc_options)

    def _fits(self, model: OfflineModel, graph: Graph) -> None:
        """Checks inputs and results: the compiler may remove an input, and then tensors would go to the wrong place."""
        wanted = [(tuple(n.output.desc.shape or ()), n.output.desc.dtype.torch) for n in graph.inputs]
        gives = [kind.torch for kind in self._program.output_dtypes]
        found, results = [(p.shape, p.dtype) for p in model.inputs], [p.dtype for p in model.outputs]
        if found != wanted or results != gives:
            raise CompilationFailed(
                f"the offline model takes {found} and gives {results}, the graph takes {wanted} and gives {gives}",
                where=f"graph {self._options.name}",
                advice="use engine='torchair_extension' or 'ge_session'",
            )

    def stats(self) -> Mapping[str, object]:
        """Sizes of the compilation."""
        return dict(self._stats)

    def close(self) -> None:
        """Unload the model."""
        self._closed = True
        for model in (self._fixed, *self._models.values()):
            if model is not None:
                model.close()
        self._fixed = self._only = None
        self._models.clear()
