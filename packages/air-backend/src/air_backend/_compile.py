"""Takes one ATen graph through streams, passes and an executor, and keeps the record of what happened.

    ATen graph ─► StreamPlan ─► settings for this graph ─► Pipeline ─► run-eagerly | aclgraph | Ascend IR

This is where the packages meet; each step belongs to one of them, and the order is the only thing decided here.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch import fx
from torch._dynamo.utils import counters, dynamo_timed

import air_aclgraph
import air_config
import air_geir
import air_streams
from air_backend import _artifacts, _passes
from air_backend._context import context_of
from air_backend._devices import ground_of, serve
from air_fxpasses import Pipeline, PipelineReport

log = logging.getLogger(__name__)

Role = Literal["inference", "forward", "backward"]
_numbers: Final = itertools.count()


@dataclass
class CompiledGraph:
    """The record of one graph: every step from the ATen graph to its executor."""

    name: str
    role: Role
    ground: torch.device
    settings: air_config.Settings
    plan: air_streams.StreamPlan
    passes: PipelineReport | None
    executor: str
    seconds: float
    nodes: int
    copies_removed: int
    """Copies into inputs (KV caches) that the passes turned into writes in place."""


def compile_aten(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    config: air_config.CompilerConfig,
    *,
    role: Role = "inference",
    static_inputs: Sequence[int] = (),
) -> tuple[CompiledGraph, Callable[..., Any]]:
    """Compiles a graph of ATen operators by the configuration; gives the record and what runs the graph."""
    started = time.perf_counter()
    name = f"graph_{next(_numbers)}"
    with dynamo_timed(f"air.{name}", log_pt2_compile_event=True):
        if role == "backward":
            air_streams.drop_forward_copies(gm)
        ground = ground_of(gm)
        plan = air_streams.StreamPlan.of(gm, sync="off")
        context = context_of(gm, ground, multi_stream=plan.is_multi_stream, training=role == "forward")
        settings = air_config.resolve(config, context).check()
        serve(ground, settings.mode)
        plan = plan.held_to(settings.air.sync, gm)
        nodes, copies = len(gm.graph.nodes), _copies(gm)
        _artifacts.graph(f"air_{name}_before", gm)
        report, plan = _optimise(gm, example_inputs, settings, config, plan)
        _artifacts.graph(f"air_{name}_after", gm)
        copies -= _copies(gm)
        executor, run = _executor(gm, example_inputs, settings, plan, static_inputs, name)
    seconds = time.perf_counter() - started
    record = CompiledGraph(name, role, ground, settings, plan, report, executor, seconds, nodes, copies)
    counters["air"]["graphs"] += 1
    log.info("%s: %s, %d nodes, on %s, by %s in %.2f s", name, role, nodes, ground, executor, seconds)
    return record, run


def _copies(gm: fx.GraphModule) -> int:
    """How many copies into inputs a graph makes."""
    return len(gm.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default))


def _optimise(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    settings: air_config.Settings,
    config: air_config.CompilerConfig,
    plan: air_streams.StreamPlan,
) -> tuple[PipelineReport | None, air_streams.StreamPlan]:
    """Runs the passes that the settings ask for; the plan is made anew where they touched the graph."""
    passes = _passes.chosen(settings, example_inputs, config)
    if not passes:
        return None, plan
    report = Pipeline(passes, ordering=plan.ordering, verify=settings.air.verify).run(gm, example_inputs)
    touched = any(step.modified or step.rolled_back for step in report.steps)
    return report, air_streams.StreamPlan.of(gm, sync="off") if touched else plan


def _executor(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    settings: air_config.Settings,
    plan: air_streams.StreamPlan,
    static_inputs: Sequence[int],
    name: str,
) -> tuple[str, Callable[..., Any]]:
    """The object that runs the graph, and the name under which it is reported."""
    if settings.debug.run_eagerly:
        kernels = settings if settings.mode != "max-autotune" else None
        return "run_eagerly", air_aclgraph.run_eagerly(gm, example_inputs, settings=kernels)
    if settings.mode == "max-autotune":
        run = air_geir.compile_graph(
            gm,
            example_inputs,
            settings=settings,
            engine=settings.air.engine,
            static_inputs=static_inputs,
            name=name,
            fallback=settings.air.unsupported,
        )
        return "max-autotune", run
    captured = air_aclgraph.compile_graph(
        gm, example_inputs, settings=settings, plan=plan, static_inputs=static_inputs, name=name
    )
    return "reduce-overhead", captured
