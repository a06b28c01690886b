"""Takes one ATen graph through streams, passes and an executor, and keeps the record of what happened.

    ATen graph ─► StreamPlan ─► settings for this graph ─► Pipeline ─► run-eagerly | aclgraph | Ascend IR

This is where the packages meet; each step belongs to one of them, and the order is the only thing decided here.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
from torch import fx
from torch._dynamo.utils import counters, dynamo_timed

import air_aclgraph
import air_config
import air_geir
import air_graph
import air_streams
from air_aclgraph.buckets import Bucket, DeclaredBuckets, find_buckets, proven_buckets
from air_aclgraph.errors import BucketsRefused
from air_backend import _passes, _pieces, dump
from air_backend._context import context_of
from air_backend._deadlocks import refuse_deadlocks
from air_backend._describe import describe
from air_backend._devices import ground_of, serve
from air_backend._observer import Observer
from air_backend._record import CompiledGraph, Role
from air_fxpasses import Pipeline, PipelineReport
from air_fxpasses.passes import ProductsOfExperts, has_products_of_experts
from air_graph.executors import Executor
from air_graph.pieces import LeftOut

log = logging.getLogger(__name__)

_numbers: Final = itertools.count()


def compile_aten(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    config: air_config.CompilerConfig,
    *,
    role: Role = "inference",
    static_inputs: Sequence[int] = (),
    folder: dump.DebugFolder | None = None,
    to_file: bool = False,
) -> tuple[CompiledGraph, Executor]:
    """Compiles a graph of ATen operators by the configuration; gives the record and what runs the graph.

    `folder` is where TORCH_COMPILE_DEBUG wants the files of the model; `to_file` says that the function is, or was,
    written into a file.
    """
    started = time.perf_counter()
    number = next(_numbers)
    name = f"graph_{number}"
    observer = Observer(name, number, folder.role(role) if folder is not None else None)
    with dynamo_timed(f"air.{name}", log_pt2_compile_event=True):
        air_graph.mend_zeros(gm)
        air_graph.mend_long_products(gm)
        air_graph.mend_offsets(gm)
        air_graph.mend_layouts(gm)
        air_graph.note_owning_results(gm)
        if role == "backward":
            air_streams.drop_forward_copies(gm)
        ground = ground_of(gm)
        plan = air_streams.StreamPlan.of(gm, sync="off")
        declared = find_buckets(example_inputs)
        context = context_of(
            gm,
            example_inputs,
            ground,
            multi_stream=plan.is_multi_stream,
            buckets=bool(declared),
            training=role in ("forward", "joint"),
            compile_cache=to_file,
            static_kernels=config.experimental_config.aclgraph._aclnn_static_shape_kernel,
        )
        settings = air_config.resolve(config, context).check()
        serve(ground, settings.mode)
        plan = plan.held_to(settings.air.sync, gm)
        refuse_deadlocks(plan, settings)
        nodes, copies = len(gm.graph.nodes), _copies(gm)
        observer.before(gm, example_inputs, config, settings)
        buckets = _buckets(gm, declared, settings, role)
        work = _Work(settings, config, observer, ground, buckets, role)
        report: PipelineReport | None
        run: Executor
        first = work.prepared(gm, example_inputs)
        held = work.host_constants(gm)
        copied = work.views(gm)
        if work.spare_the_host(gm) or first is not None or held or copied:
            plan = plan.read_again(gm, sync="off")
        numbers = () if plan.is_multi_stream else work.numbers(gm)
        apart = work.apart(gm)
        if apart or numbers:
            report, plan, run = work.in_pieces(gm, apart, example_inputs, static_inputs, name, numbers)
            executor, copies = "reduce-overhead", copies - _copies(gm)
        else:
            report, plan, executor, run = work.whole(gm, example_inputs, plan, static_inputs, name)
            copies -= _copies(gm)
    if first is not None:
        report = PipelineReport.joined([first] if report is None else [first, report])
    seconds = time.perf_counter() - started
    record = CompiledGraph(
        name, role, ground, settings, plan, report, executor, seconds, nodes, copies, _targets(gm), held
    )
    observer.done(lambda: describe(record, run), run)
    counters["air"]["graphs"] += 1
    log.info("%s: %s, %d nodes, on %s, by %s in %.2f s", name, role, nodes, ground, executor, seconds)
    return record, run


@dataclass(frozen=True)
class _Work:
    """What all parts of one graph are compiled with."""

    settings: air_config.Settings
    config: air_config.CompilerConfig
    observer: Observer
    ground: torch.device
    buckets: Sequence[Bucket]
    role: Role

    def whole(
        self,
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        plan: air_streams.StreamPlan,
        static_inputs: Sequence[int],
        name: str,
    ) -> tuple[PipelineReport | None, air_streams.StreamPlan, str, Executor]:
        """Passes, then the executor."""
        settings, observer = self.settings, self.observer
        untouched = _pieces.untouched(gm) if self.splits and self.ground.type != "cpu" else None
        report = _optimise(gm, example_inputs, settings, self.config, plan, observer)
        observer.after(gm, settings)
        touched = report is not None and any(step.modified or step.rolled_back for step in report.steps)
        if _dumps_in_graph(settings):
            dump.insert_saves(gm, self.ground, settings.dump_config.dump_path, name)
            touched = True
        if touched:
            plan = plan.read_again(gm, sync=settings.air.sync)
        executor, run = _executor(
            gm, example_inputs, settings, plan, static_inputs, name, observer, self.buckets, self.role
        )
        if untouched is not None and isinstance(run, air_aclgraph.AnyExecutable):
            again = partial(self._again_in_pieces, untouched, example_inputs, static_inputs, name)
            run.split_by(_pieces.splitter(untouched, self.ground, again))
        return report, plan, executor, run

    @property
    def _captures(self) -> bool:
        settings = self.settings
        return settings.mode != "max-autotune" and not (
            settings.debug.run_eagerly
            or settings.debug.data_dump.type is not None
            or _dumps_in_graph(settings)
        )

    @property
    def splits(self) -> bool:
        """Whether a graph is cut round what cannot be captured: something is captured, and no error is asked for."""
        return self._captures and not self.buckets and self.settings.air.uncapturable != "error"

    def apart(self, gm: fx.GraphModule) -> Mapping[fx.Node, LeftOut]:
        """What a graph is cut round; where an error is asked for, only what sizes decide, which runs once for each."""
        if not self._captures or self.buckets:
            return {}
        apart = air_aclgraph.uncapturable(gm, self.ground)
        refused = self.settings.air.uncapturable == "error"
        if refused and len(air_aclgraph.decided_by_symbols(gm, apart)) < len(apart):
            return {}
        return apart

    def prepared(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> PipelineReport | None:
        """What turns operators that no capture can hold into others that one can, before the graph is cut."""
        if not self._captures or self.ground.type != "npu" or not has_products_of_experts(gm):
            return None
        pipeline = Pipeline(
            (ProductsOfExperts(),), verify=self.settings.air.verify, listing=self.observer.listing
        )
        report = pipeline.run(gm, example_inputs)
        return report if any(step.modified or step.refusals for step in report.steps) else None

    def spare_the_host(self, gm: fx.GraphModule) -> bool:
        """Writes in other words what waits for the host and need not; says whether there was anything."""
        return self._captures and air_aclgraph.spare_the_host(gm, self.ground) > 0

    def views(self, gm: fx.GraphModule) -> int:
        """Says how values on an NPU lie, and copies what views of them need; gives the number of copies."""
        if self.ground.type != "npu":
            return 0
        copies = air_graph.mend_views_on_npu(gm)
        air_graph.lay_out_as_on_npu(gm)
        return copies

    def host_constants(self, gm: fx.GraphModule) -> tuple[air_aclgraph.HostConstant, ...]:
        """Puts what the graph computes on the host from constants alone on the device, once."""
        if not self._captures:
            return ()
        return air_aclgraph.hold_host_constants(gm, self.ground, self.settings.air.host_constant_bytes)

    def numbers(self, gm: fx.GraphModule) -> tuple[fx.Node, ...]:
        """Has numbers that decide no size put on the device before each replay, where a capture would hold them."""
        if not self._captures or self.buckets:
            return ()
        return air_aclgraph.stage_numbers(gm, self.ground)

    def _again_in_pieces(
        self,
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        static_inputs: Sequence[int],
        name: str,
        apart: Mapping[fx.Node, LeftOut],
    ) -> air_aclgraph.PiecedExecutable:
        """What runs a graph from then on whose capture failed."""
        return self.in_pieces(gm, apart, example_inputs, static_inputs, name)[2]

    def in_pieces(
        self,
        gm: fx.GraphModule,
        apart: Mapping[fx.Node, LeftOut],
        example_inputs: Sequence[Any],
        static_inputs: Sequence[int],
        name: str,
        numbers: Sequence[fx.Node] = (),
    ) -> tuple[PipelineReport, air_streams.StreamPlan, air_aclgraph.PiecedExecutable]:
        """The same for each piece of a graph that some operators cut up."""
        reports: list[PipelineReport] = []

        def compile_piece(
            part: fx.GraphModule, inputs: list[Any], static: Sequence[int], part_name: str
        ) -> Callable[..., Any]:
            plan = air_streams.StreamPlan.of(part, sync="off")
            report, _, _, run = self.whole(part, inputs, plan, static, part_name)
            reports.extend([report] if report is not None else [])
            return run

        limit = self.settings.air.host_constant_bytes
        run = _pieces.compile_in_pieces(
            gm, apart, example_inputs, static_inputs, name, compile_piece, limit, numbers
        )
        left = [(each.target, each.reason, each.source) for each in run.eager]
        first = next((node for node, each in apart.items() if each in run.eager), None)
        _pieces.tell("reduce-overhead", name, len(run.pieces), left, first)
        return PipelineReport.joined(reports), air_streams.StreamPlan.of(gm, sync="off"), run


def _buckets(
    gm: fx.GraphModule, declared: DeclaredBuckets, settings: air_config.Settings, role: Role
) -> tuple[Bucket, ...]:
    """The buckets of a graph that is captured, proven while it is still functional."""
    if not declared or settings.mode == "max-autotune" or settings.debug.run_eagerly:
        return ()  # where they are ignored, a rule has left a notice
    if role != "inference":
        raise BucketsRefused(
            "buckets are declared on an input of a graph that is trained: its backward half would see the padding",
            advice="compile the model under torch.no_grad() or torch.inference_mode(), or declare no buckets",
        )
    return proven_buckets(gm, declared)


def _copies(gm: fx.GraphModule) -> int:
    """How many copies into inputs a graph makes."""
    return len(gm.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default))


def _targets(gm: fx.GraphModule) -> dict[str, str]:
    """The operators of a graph by the names of their nodes."""
    return {
        node.name: str(node.target)
        for node in gm.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    }


def _optimise(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    settings: air_config.Settings,
    config: air_config.CompilerConfig,
    plan: air_streams.StreamPlan,
    observer: Observer,
) -> PipelineReport | None:
    """Runs the passes that the settings ask for."""
    passes = () if _dumps_original(settings) else _passes.chosen(settings, example_inputs, config)
    if not passes:
        return None
    pipeline = Pipeline(passes, ordering=plan.ordering, verify=settings.air.verify, listing=observer.listing)
    return pipeline.run(gm, example_inputs)


def _executor(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    settings: air_config.Settings,
    plan: air_streams.StreamPlan,
    static_inputs: Sequence[int],
    name: str,
    observer: Observer,
    buckets: Sequence[Bucket],
    role: Role,
) -> tuple[str, Executor]:
    """The object that runs the graph, and the name under which it is reported."""
    wanted = settings.debug
    if wanted.data_dump.type is not None:
        return "data_dump", dump.EagerDump(gm, wanted.data_dump.path, name, wanted.data_dump.filter)
    if settings.mode == "max-autotune" and wanted.fx_summary.type is not None:
        dump.summarize(gm, example_inputs, name)
        if wanted.fx_summary.skip_compile:
            return "fx_summary", air_aclgraph.run_eagerly(gm, name=name)
    if wanted.run_eagerly or _dumps_original(settings):
        if settings.mode == "max-autotune":  # its tags are labels
            return "run_eagerly", air_aclgraph.run_eagerly(gm, example_inputs, name=name)
        straight = air_aclgraph.run_eagerly(gm, example_inputs, settings=settings, plan=plan, name=name)
        return "run_eagerly", straight
    if settings.mode == "max-autotune":
        run = air_geir.compile_graph(
            gm,
            example_inputs,
            settings=settings,
            engine=settings.air.engine,
            static_inputs=static_inputs,
            name=name,
            fallback="error" if settings.air.unsupported == "error" else "eager",
            observe=observer.ascend_ir,
            dump_nodes=[node.name for node in gm.graph.nodes if dump.is_marked(node)],
            backward=role == "backward",
        )
        if isinstance(run, air_geir.SplitExecutable):
            left = [(each.target, each.reason, each.source) for each in run.eager]
            nodes = {node.name: node for node in gm.graph.nodes}
            _pieces.tell("max-autotune", name, len(run.pieces), left, nodes.get(run.eager[0].node))
        return "max-autotune", run
    captured = air_aclgraph.compile_graph(
        gm,
        example_inputs,
        settings=settings,
        plan=plan,
        static_inputs=static_inputs,
        name=name,
        buckets=buckets,
    )
    return "reduce-overhead", captured


def _dumps_in_graph(settings: air_config.Settings) -> bool:
    """Whether the graph itself writes its tensors, in every run."""
    return settings.dump_config.enable_dump and settings.mode != "max-autotune"


def _dumps_original(settings: air_config.Settings) -> bool:
    """Whether the tensors are those of the graph as it came, run eagerly and without passes."""
    return _dumps_in_graph(settings) and settings.dump_config.data_dump_stage == "original"
