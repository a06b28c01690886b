"""Options of the Graph Engine: which setting becomes which key, in which spelling."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Protocol

import torch

from air_geir.engines._protocol import EngineOptions, TensorDump
from air_geir.errors import OptionError
from air_geir.ir import Expr, Placement
from air_geir.program import ArgInput, Program
from air_graph import files, ranks


class DeviceFacts(Protocol):
    """What the device says about itself, as far as options depend on it."""

    @property
    def index(self) -> int:
        """Number of the device."""

    @property
    def hf32(self) -> str:
        """Two digits: whether convolutions and matrix products may use HF32."""

    @property
    def deterministic_level(self) -> int:
        """The device's level of determinism."""


@dataclass(frozen=True, slots=True)
class PlainDevice:
    """Facts for a machine without a device: what the engine assumes by itself."""

    index: int = 0
    hf32: str = "10"
    deterministic_level: int = 0


def _digit(value: object) -> str:
    return "1" if value else "0"


def _word(value: object) -> str:
    return "true" if value else "false"


_SORTING = {"BFS": "0", "DFS": "1", "RDFS": "2", "StableRDFS": "3"}


def _jit(value: object) -> str:
    if value != "auto":
        raise OptionError(f"jit_compile is {value!r}", advice="the graph engine knows only 'auto'")
    return "2"


@dataclass(frozen=True, slots=True)
class Row:
    """One option of the engine that comes from one setting."""

    key: str
    setting: str
    spell: Callable[[Any], str]
    only_if_set: bool = False


SESSION_ROWS = (
    Row("ge.exec.enableEngineParallel", "experimental_config.cc_parallel_enable", _digit),
    Row("ge.fusionSwitchFile", "fusion_config.fusion_switch_file", str, only_if_set=True),
    Row("ge.enableSingleStream", "ge_config.enable_single_stream", _word),
    Row("ge.oo.level", "ge_config.oo_level", str),
    Row("ge.oo.constantFolding", "ge_config.oo_constant_folding", _word, only_if_set=True),
    Row("ge.oo.deadCodeElimination", "ge_config.oo_dead_code_elimination", _word, only_if_set=True),
    Row("ge.exportCompileStat", "ge_config.export_compile_stat", str),
    Row("ge.aicoreNum", "ge_config.aicore_num", str, only_if_set=True),
    Row("ge.optimizationSwitch", "ge_config.optimization_switch", str, only_if_set=True),
)
"""Options of the process: fixed by the first graph."""
GRAPH_ROWS = (
    Row("ge.jit_compile", "experimental_config.jit_compile", _jit),
    Row("ge.topoSortingMode", "experimental_config.topology_sorting_strategy", _SORTING.__getitem__),
    Row("ge.featureBaseRefreshable", "experimental_config.memory_efficiency", _digit),
    Row("ge.tiling_schedule_optimize", "experimental_config.tiling_schedule_optimize", _digit),
    Row(
        "ge.exec.static_model_ops_lower_limit",
        "experimental_config.static_model_ops_lower_limit",
        str,
        only_if_set=True,
    ),
    Row("aoe_mode", "aoe_config.aoe_mode", str, only_if_set=True),
)
"""Options of one graph."""
_FIXED_SESSION = {"ge.exec.staticMemoryPolicy": "2", "ge.opSelectImplmode": "high_precision"}
_FIXED_GRAPH = {"ge.exec.atomicCleanPolicy": "1"}


def _from_settings(settings: Any, rows: tuple[Row, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in rows:
        value = attrgetter(row.setting)(settings)
        if not row.only_if_set or value is not None:
            found[row.key] = row.spell(value)
    return found


def session_options(settings: Any, device: DeviceFacts) -> dict[str, str]:
    """The options of the process-wide session."""
    return {
        "ge.exec.deviceId": str(device.index),
        "ge_run_with_torch_npu": "1",
        "ge.exec.allow_hf32": device.hf32,
        **_determinism(device),
        **_FIXED_SESSION,
        **_from_settings(settings, SESSION_ROWS),
    }


_DETERMINISM: Final = frozenset(("ge.deterministic", "ge.deterministicLevel"))


def _determinism(device: DeviceFacts) -> dict[str, str]:
    return {
        "ge.deterministic": _digit(torch.are_deterministic_algorithms_enabled()),
        "ge.deterministicLevel": str(device.deterministic_level),
    }


def graph_options(settings: Any, program: Program, device: DeviceFacts) -> dict[str, str]:
    """The options of one graph."""
    options = {
        **_FIXED_GRAPH,
        **_determinism(device),
        **_from_settings(settings, GRAPH_ROWS),
        **_memory(program),
        "ge.exec.allTensorNotEmpty": _digit(not _has_empty_tensor(program)),
        **_hints(program),
        **_frozen(settings, program),
    }
    if settings.ge_config.oo_level == "O1" or _transfers(program) > 1:
        options["ge.topoSortingMode"] = _SORTING["StableRDFS"]
    if settings.aoe_config.aoe_mode is not None:
        options["work_path"] = str(settings.aoe_config.work_path)
        if settings.aoe_config.aoe_config_file is not None:
            options["aoe_config_file"] = str(settings.aoe_config.aoe_config_file)
    return options


def refuse_change(known: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """The engine has one session in a process: an error that names the options a later graph wants otherwise.

    Determinism is an option of each graph as well, which goes before that of the session.
    """
    changed = [
        f"{key} = {wanted.get(key, 'unset')} (the first graph set {known.get(key, 'nothing')})"
        for key in sorted((wanted.keys() | known.keys()) - _DETERMINISM)
        if wanted.get(key) != known.get(key)
    ]
    if changed:
        raise OptionError(
            "options of the graph engine's session cannot change once a graph was compiled: "
            + "; ".join(changed),
            advice="give every graph of the process the same ge_config, fusion_config and device, or use two processes",
        )


def engine_options(settings: Any, program: Program, device: DeviceFacts | None = None) -> EngineOptions:
    """Everything an engine is told beyond the graph.

    `settings` is what `air_config.resolve` gives; anything with the same attribute paths will do.
    """
    facts = device or PlainDevice()
    return EngineOptions(
        session_options(settings, facts), graph_options(settings, program, facts), name=program.graph.name
    )


def _memory(program: Program) -> dict[str, str]:
    """Which outputs may share memory with what, by index."""
    position = {b.arg: i for i, b in enumerate(program.inputs) if isinstance(b, ArgInput)}
    free = [i for i in range(len(program.graph.outputs)) if i not in program.assigned]
    options = {"ge.exec.outputReuseMemIndexes": ",".join(map(str, free))} if free else {}
    places = program.input_placements
    tied = [(position[arg], output) for output, arg in program.assigned.items() if arg in position]
    if tied and all(places[index] is Placement.DEVICE for index, _ in tied):
        pairs = "|".join(f"{index},{output}" for index, output in tied)
        options["ge.exec.outputReuseInputMemIndexes"] = pairs
    return options


def _has_empty_tensor(program: Program) -> bool:
    return any(p.desc.shape is not None and 0 in p.desc.shape for n in program.graph for p in n.outputs)


def _hints(program: Program) -> dict[str, str]:
    """The sizes the graph was traced with, for every input."""
    texts = []
    for index, node in enumerate(program.graph.inputs):
        dims = node.output.desc.shape or ()
        sizes = [d.evaluate(program.hints) if isinstance(d, Expr) and d.symbols() <= program.hints.keys() else d
                 for d in dims]  # fmt: skip
        if all(isinstance(s, int) for s in sizes):
            texts.append(f"{index}:{sizes}")
    return {"ge.inputHintShape": ";".join(texts)} if texts else {}


def _frozen(settings: Any, program: Program) -> dict[str, str]:
    """Which inputs keep their address for good: weights and static tensors, when the user says so.

    One that does not lie dense is copied for each call, and the copy has another address each time.
    """
    wanted = settings.experimental_config.frozen_parameter
    flags = [
        _digit(wanted and place is Placement.DEVICE and isinstance(b, ArgInput) and _stays(b))
        for b, place in zip(program.inputs, program.input_placements, strict=True)
    ]
    return {"frozenInput": ",".join(flags)} if flags else {}


def _stays(binding: ArgInput) -> bool:
    return (binding.parameter or binding.static) and binding.contiguous


def _transfers(program: Program) -> int:
    return sum(1 for _ in program.graph.of_type("HcomSend", "HcomReceive"))


def dump_config(settings: Any, model_name: str, nodes: Sequence[str] = ()) -> Mapping[str, Any] | None:
    """The device's dump configuration, None when nothing is dumped; `nodes` are dumped beside `dump_layer`."""
    config = settings.dump_config
    if not config.enable_dump:
        return None
    entry: dict[str, Any] = {"model_name": model_name}
    if layers := [*str(config.dump_layer).split(), *nodes]:
        entry["layer"] = layers
    dump: dict[str, Any] = {
        "dump_list": [entry] if layers else [],
        "dump_path": os.path.abspath(str(config.dump_path)),
        "dump_mode": str(config.dump_mode),
        "dump_data": str(config.dump_data),
    }
    if list(_runs(config.dump_step)):
        dump["dump_step"] = str(config.dump_step)
    return {"dump": dump}


def tensor_dump(settings: Any, nodes: Sequence[str] = ()) -> TensorDump | None:
    """What `dump_config` asks for, for an engine that writes the tensors itself."""
    config = settings.dump_config if settings is not None else None
    if config is None or not config.enable_dump:
        return None
    sides = ("input", "output") if config.dump_mode == "all" else (str(config.dump_mode),)
    chosen = frozenset((*str(config.dump_layer).split(), *nodes)) or None
    return TensorDump(
        _own_folder(str(config.dump_path)),
        sides,
        tuple(_runs(config.dump_step)),
        chosen,
        config.dump_data == "stats",
    )


def _own_folder(path: str) -> str:
    """Where this process writes: in a job of several, each has a folder of its own, since names are the same in all."""
    if ranks.rank_and_size()[1] > 1:
        return str(files.rank_folder(path, "the folder of dumped tensors"))
    return os.path.abspath(path)


def _runs(text: str) -> Iterator[range]:
    """`0|3-5` as ranges."""
    for part in filter(None, str(text).split("|")):
        first, _, last = part.partition("-")
        if int(last or first) < int(first):
            raise OptionError(
                f"dump_config.dump_step = {text!r}: {part} ends before it begins",
                advice="write the smaller step first, for example '0|3-5'",
            )
        yield range(int(first), int(last or first) + 1)
