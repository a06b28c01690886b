"""Which engine runs a program: the one asked for, or the best that is present."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from air_config import CompilerConfig, Context, resolve
from air_geir.engines import (
    Atc,
    Engine,
    EngineOptions,
    GeSession,
    NpuDevice,
    TorchairExtension,
    Unavailable,
    as_asked,
    dump_config,
    engine_options,
    folder_asked,
    start_dump,
    tensor_dump,
)
from air_geir.errors import EngineUnavailableError
from air_geir.gears import Gears, gear_options
from air_geir.program import Program
from air_geir.reference import ReferenceEngine

log = logging.getLogger(__name__)

ENGINES: dict[str, Callable[[], Engine]] = {
    "torchair_extension": TorchairExtension,
    "ge_session": GeSession,
    "atc": Atc,
    "reference": ReferenceEngine,
}
"""Engines by name, best first. Add to it with `register_engine`."""
_BY_DEVICE: Mapping[str, tuple[str, ...]] = {
    "npu": ("torchair_extension", "ge_session"),
    "cpu": ("reference",),
}


def register_engine(name: str, make: Callable[[], Engine]) -> None:
    """Make an engine known under a name that is not taken yet."""
    if name in ENGINES:
        raise EngineUnavailableError(f"an engine {name!r} exists already", advice="choose another name")
    ENGINES[name] = make


def choose_engine(name: str, example_inputs: Iterable[Any]) -> Engine:
    """The engine of this name; `"auto"` takes the first that is present for the device the inputs live on."""
    if name != "auto":
        return _named(name)
    device = _device_of(example_inputs)
    reasons = []
    for candidate in _BY_DEVICE.get(device, ()):
        engine = ENGINES[candidate]()
        reason = engine.unavailable()
        if reason is None:
            return engine
        reasons.append(str(reason))
    raise EngineUnavailableError(
        f"no engine runs graphs of {device} tensors here" + (f": {'; '.join(reasons)}" if reasons else ""),
        advice="engine='reference' runs any graph on CPU tensors",
    )


def engines_here() -> dict[str, Unavailable | None]:
    """Every engine by name, with the reason why it cannot be used on this machine; None where it can."""
    return {name: make().unavailable() for name, make in ENGINES.items()}


def why(asked: str, engine: Engine) -> str:
    """Why this engine was chosen, and why those that `"auto"` tries first cannot be used."""
    if asked != "auto":
        return "asked for by name"
    order = next((names for names in _BY_DEVICE.values() if engine.name in names), (engine.name,))
    before = order[: order.index(engine.name)]
    hindered = "; ".join(str(ENGINES[name]().unavailable()) for name in before)
    return f"the first that is present ({hindered})" if hindered else "the first choice for these tensors"


def _named(name: str) -> Engine:
    if name not in ENGINES:
        raise EngineUnavailableError(
            f"there is no engine {name!r}", advice=f"one of auto, {', '.join(ENGINES)}"
        )
    engine = ENGINES[name]()
    reason = engine.unavailable()
    if reason is not None:
        raise EngineUnavailableError(f"engine {name} cannot be used: {reason.reason}", advice=reason.advice)
    return engine


def _device_of(example_inputs: Iterable[Any]) -> str:
    kinds = {value.device.type for value in example_inputs if isinstance(value, torch.Tensor)}
    kinds.discard("meta")
    return next(iter(sorted(kinds - {"cpu"})), "cpu")


def options_for(
    engine: Engine,
    settings: Any,
    program: Program,
    gears: Mapping[int, Gears] | None = None,
    dump_nodes: Collection[str] = (),
) -> EngineOptions:
    """What the engine is told: the settings in GE's spelling, for an engine that has a device."""
    if engine.name == "reference":
        if folder_asked() is not None:
            log.warning("%s: engine reference compiles nothing that could be kept", program.graph.name)
        return EngineOptions({}, {}, program.graph.name, tensor_dump(settings, sorted(dump_nodes)))
    chosen = settings if settings is not None else resolve(CompilerConfig(), Context(device="npu"))
    path = chosen.dump_config.dump_config_path
    marked = [n.name for n in program.graph if n.origin is not None and n.origin.fx in dump_nodes]
    start_dump(
        dump_config(chosen, program.graph.name, marked), str(path) if path else None, program.graph.name
    )
    options = as_asked(engine_options(chosen, program, NpuDevice.current()))
    options = replace(options, ahead=chosen.air.compile_ahead)
    if not gears:
        return options
    policy = chosen.inference_config.dynamic_gears_merge_policy
    return replace(options, graph={**options.graph, **gear_options(program, gears, policy)})


def generator_for(engine: Engine) -> torch.Generator | None:
    """The random generator a graph draws from: the device's own, None for the CPU's."""
    if engine.name == "reference":
        return None
    npu = torch.get_device_module("npu")
    generator: torch.Generator = npu.default_generators[npu.current_device()]
    return generator
