"""Takes one ATen graph through streams, passes and an executor, and keeps the record of what happened.

    ATen graph ─► StreamPlan ─► settings for this graph ─► Pipeline ─► run-eagerly | aclgraph | Ascend IR

This is where the packages meet; each step belongs to one of them, and the order is the only thing decided here.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from air_fxpasses import Pass, Pipeline, PipelineReport
from air_fxpasses.passes import ProductsOfExperts, has_products_of_experts
from air_graph.executors import Executor
from air_graph.pieces import LeftOut

log = logging.getLogger(__name__)

STATIC_KERNELS: Final = "experimental_config.aclgraph._aclnn_static_shape_kernel"
_numbers: Final = itertools.count()


@air_graph.collector_paused()
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
        _mend(gm, role)
        ground = ground_of(gm)
        plan = air_streams.StreamPlan.of(gm, sync="off")
        declared = find_buckets(example_inputs)
        context = context_of(
            gm,
            example_inputs,
            ground,
            multi_stream=plan.is_multi_stream,
            buckets=bool(declared),
            training=role != "inference",
            compile_cache=to_file,
            static_kernels=config.layered(STATIC_KERNELS),
        )
        settings = air_config.resolve(config, context).check()
        serve(ground, settings.mode)
        plan = plan.held_to(settings.air.sync, gm)
        refuse_deadlocks(plan, settings)
        awaited = plan.awaited
        nodes, copies = len(gm.graph.nodes), _copies(gm)
        observer.before(gm, example_inputs, config, settings)
        buckets = _buckets(gm, declared, settings, role)
        work = _Work(settings, config, observer, ground, buckets, role)
        part = _Part(gm, example_inputs, static_inputs, name)
        made = work.made(part, plan)
    seconds = time.perf_counter() - started
    record = CompiledGraph(
        name,
        role,
        ground,
        settings,
        made.plan,
        made.passes,
        made.executor,
        seconds,
        nodes,
        copies - _copies(gm),
        _targets(gm),
        made.held,
        awaited,
    )
    observer.done(lambda: describe(record, made.run), made.run)
    counters["air"]["graphs"] += 1
    log.info("%s: %s, %d nodes, on %s, by %s in %.2f s", name, role, nodes, ground, made.executor, seconds)
    return record, made.run


def _mend(gm: fx.GraphModule, role: Role) -> None:
    """Mends what torch traced wrongly, and notes what only this graph can tell: whose memory its results lie in."""
    air_graph.inline_regions(gm)
    air_graph.mend_zeros(gm)
    air_graph.mend_long_products(gm)
    air_graph.mend_offsets(gm)
    air_graph.mend_layouts(gm)
    air_graph.note_owning_results(gm)
    if role == "backward":
        air_streams.drop_forward_copies(gm)


@dataclass(frozen=True)
class _Part:
    """A graph, or a piece of one: its example inputs, which of them keep their address, and its name.

    `whole` is what a piece knows of the graph that it is of.
    """

    gm: fx.GraphModule
    inputs: Sequence[Any]
    static: Sequence[int]
    name: str
    whole: dump.Whole | None = None


@dataclass(frozen=True)
class _Made:
    """What a graph has become: the plan and the report of its passes, and what runs it, by the name of its kind."""

    plan: air_streams.StreamPlan
    passes: PipelineReport | None
    executor: str
    run: Executor
    held: tuple[air_aclgraph.HostConstant, ...]


@dataclass(frozen=True)
class _Work:
    """What all parts of one graph are compiled with."""

    settings: air_config.Settings
    config: air_config.CompilerConfig
    observer: Observer
    ground: torch.device
    buckets: Sequence[Bucket]
    role: Role

    def made(self, part: _Part, plan: air_streams.StreamPlan) -> _Made:
        """Writes a graph so that much of it can be captured, and compiles it: in pieces where something is apart."""
        gm, work = part.gm, self
        report: PipelineReport | None
        run: Executor
        first = self.prepared(gm, part.inputs)
        held = self.host_constants(gm)
        copied = self.views(gm)
        if self.spare_the_host(gm) or first is not None or held or copied:
            plan = plan.read_again(gm, sync="off")
        apart = self.apart(gm)
        if apart and self.buckets:
            _pieces.warn_of_buckets(part.name, apart)
            work = replace(self, buckets=())
        numbers = () if plan.is_multi_stream else work.numbers(gm)
        if apart or numbers:
            executor = "reduce-overhead"
            report, plan, run = work.in_pieces(part, apart, numbers)
        else:
            report, plan, executor, run = work.whole(part, plan)
        if first is not None:
            report = PipelineReport.joined([first] if report is None else [first, report])
        return _Made(plan, report, executor, run, held)

    def whole(
        self, part: _Part, plan: air_streams.StreamPlan
    ) -> tuple[PipelineReport | None, air_streams.StreamPlan, str, Executor]:
        """Passes, then the executor."""
        gm, settings = part.gm, self.settings
        if self._captures and air_graph.finish_collectives(gm):
            plan = plan.read_again(gm, sync="off")
        untouched = air_graph.duplicate(gm) if self.splits and self.ground.type != "cpu" else None
        report = self._optimise(part, plan)
        air_graph.restore_detached(gm)
        touched = report is not None and any(step.modified or step.rolled_back for step in report.steps)
        if settings.air.products_side_by_side and self._captures:
            touched = bool(air_streams.products_side_by_side(gm)) or touched
        self.observer.after(gm, settings)
        if _dumps_in_graph(settings):
            self._dump(gm, part.name, part.whole)
            touched = True
        if touched:
            plan = plan.read_again(gm, sync=settings.air.sync)
        executor, run = self._executor(part, plan)
        if untouched is not None and isinstance(run, air_aclgraph.AnyExecutable):
            before, plain = replace(part, gm=untouched), replace(self, buckets=())
            run.split_by(
                _pieces.splitter(untouched, self.ground, lambda apart: plain.in_pieces(before, apart)[2])
            )
        return report, plan, executor, run

    def _dump(self, gm: fx.GraphModule, name: str, whole: dump.Whole | None) -> None:
        """Has a graph, or a part of one, write its tensors in every run."""
        dump.insert_saves(gm, self.ground, self.settings.dump_config.dump_path, name, whole)

    def _optimise(self, part: _Part, plan: air_streams.StreamPlan) -> PipelineReport | None:
        """Runs the passes that the settings ask for."""
        settings = self.settings
        passes = () if _dumps_original(settings) else _passes.chosen(settings, part.inputs, self.config)
        if not passes:
            return None
        return self._pipeline(passes, ordering=plan.ordering).run(part.gm, part.inputs)

    def _pipeline(self, passes: Sequence[Pass], **ordering: Any) -> Pipeline:
        return Pipeline(passes, verify=self.settings.air.verify, listing=self.observer.listing, **ordering)

    def _executor(self, part: _Part, plan: air_streams.StreamPlan) -> tuple[str, Executor]:
        """The object that runs the graph, and the name under which it is reported."""
        gm, inputs, name, settings = part.gm, part.inputs, part.name, self.settings
        wanted, is_ir = settings.debug, settings.mode == "max-autotune"
        if wanted.data_dump.type is not None:
            return "data_dump", dump.EagerDump(gm, wanted.data_dump.path, name, wanted.data_dump.filter)
        if is_ir and wanted.fx_summary.type is not None:
            dump.summarize(gm, inputs, name)
            if wanted.fx_summary.skip_compile:
                return "fx_summary", air_aclgraph.run_eagerly(gm, name=name)
        if wanted.run_eagerly or _dumps_original(settings):
            if is_ir:  # its tags are labels
                return "run_eagerly", air_aclgraph.run_eagerly(gm, inputs, name=name)
            straight = air_aclgraph.run_eagerly(gm, inputs, settings=settings, plan=plan, name=name)
            return "run_eagerly", straight
        if is_ir:
            return "max-autotune", self._ascend_ir(part)
        captured = air_aclgraph.compile_graph(
            gm,
            inputs,
            settings=settings,
            plan=plan,
            static_inputs=part.static,
            name=name,
            buckets=self.buckets,
            reads_lent=self.role == "backward" or (self.role == "forward" and part.whole is not None),
        )
        return "reduce-overhead", captured

    def _ascend_ir(self, part: _Part) -> Executor:
        """What runs the graph by an engine of Ascend IR."""
        gm, settings = part.gm, self.settings
        nodes = {node.name: node for node in gm.graph.nodes}

        def see_split(run: air_geir.SplitExecutable) -> None:
            _pieces.warn_of_pieces("max-autotune", part.name, run, nodes.get(run.eager[0].node))

        run = air_geir.compile_graph(
            gm,
            part.inputs,
            settings=settings,
            engine=settings.air.engine,
            static_inputs=part.static,
            name=part.name,
            fallback="error" if settings.air.unsupported == "error" else "eager",
            observe=self.observer.ascend_ir,
            dump_nodes=[node.name for node in gm.graph.nodes if dump.is_marked(node)],
            backward=self.role == "backward",
            see_split=see_split,
        )
        if isinstance(run, air_geir.SplitExecutable):
            see_split(run)
        return run

    @property
    def _captures(self) -> bool:
        return _captures(self.settings)

    @property
    def splits(self) -> bool:
        """Whether a graph is cut round what cannot be captured: something is captured, and no error is asked for."""
        return self._captures and self.settings.air.uncapturable != "error"

    def apart(self, gm: fx.GraphModule) -> Mapping[fx.Node, LeftOut]:
        """What a graph is cut round; where an error is asked for, only what sizes decide, which runs once for each."""
        if not self._captures:
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
        report = self._pipeline((ProductsOfExperts(),)).run(gm, example_inputs)
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

    def in_pieces(
        self, part: _Part, apart: Mapping[fx.Node, LeftOut], numbers: Sequence[fx.Node] = ()
    ) -> tuple[PipelineReport, air_streams.StreamPlan, air_aclgraph.PiecedExecutable]:
        """The same for each piece of a graph that some operators cut up."""
        reports: list[PipelineReport] = []
        whole = part.whole or dump.Whole.of(part.gm)

        def see_eager(gm: fx.GraphModule, name: str) -> None:
            if _dumps_in_graph(self.settings):
                self._dump(gm, name, whole)

        def compile_piece(*piece: Any) -> Executor:
            own = replace(_Part(*piece), whole=whole)
            air_graph.note_owning_results(own.gm)
            report, _, _, run = self.whole(own, air_streams.StreamPlan.of(own.gm, sync="off"))
            reports.extend([report] if report is not None else [])
            return run

        gm, limit = part.gm, self.settings.air.host_constant_bytes
        run = _pieces.compile_in_pieces(
            gm, apart, part.inputs, part.static, part.name, compile_piece, see_eager, limit, numbers
        )
        first = next((node for node, each in apart.items() if each in run.eager), None)
        _pieces.warn_of_pieces("reduce-overhead", part.name, run, first)
        return PipelineReport.joined(reports), air_streams.StreamPlan.of(gm, sync="off"), run


def _buckets(
    gm: fx.GraphModule, declared: DeclaredBuckets, settings: air_config.Settings, role: Role
) -> tuple[Bucket, ...]:
    """The buckets of a graph that is captured, proven while it is still functional."""
    if not declared or not _captures(settings):
        return ()  # where they are ignored, a rule has left a notice
    if role != "inference":
        raise BucketsRefused(
            "buckets are declared on an input of a graph that is trained: its backward half would see the padding",
            advice="compile the model under torch.no_grad() or torch.inference_mode(), or declare no buckets",
        )
    return proven_buckets(gm, declared)


def _captures(settings: air_config.Settings) -> bool:
    """Whether a graph is captured, and not run by a graph engine or eagerly."""
    return settings.mode != "max-autotune" and not (
        settings.debug.run_eagerly or settings.debug.data_dump.type is not None or _dumps_original(settings)
    )


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


def _dumps_in_graph(settings: air_config.Settings) -> bool:
    """Whether the graph itself writes its tensors, in every run."""
    return settings.dump_config.enable_dump and settings.mode != "max-autotune"


def _dumps_original(settings: air_config.Settings) -> bool:
    """Whether the tensors are those of the graph as it came, run eagerly and without passes."""
    return _dumps_in_graph(settings) and settings.dump_config.data_dump_stage == "original"
