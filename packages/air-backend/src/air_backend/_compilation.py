"""One call of the backend: what all graphs of ATen operators that come out of it are compiled with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
from torch import Tensor, fx
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._guards import TracingContext
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

import air_aclgraph
import air_graph
import air_streams
from air_aclgraph.buckets import BUCKETS
from air_backend import _minifier, _records
from air_backend._compile import compile_aten
from air_backend._in_order import InOrder
from air_backend._joint import JOINED, partition_of, tangents_of
from air_backend._record import Role
from air_backend._shared_memory import Sharing, Written
from air_backend.dump import DebugFolder
from air_backend.eager_calls._backward_half import BackwardHalf
from air_backend.eager_calls._repeats import Repeats, repeats_of
from air_backend.eager_calls._twice import Repeatable
from air_config import CompilerConfig, HeldLayers
from air_fxpasses.declared import Declared, declared_by_position
from air_geir.gears import GEARS
from air_graph.executors import boxed

JOINT_GRAPH: Final = "experimental_config.aot_config_enable_joint_graph"
KEEP_MUTATIONS: Final = "experimental_config.keep_inference_input_mutations"
WITH_BACKWARD: Final = ("forward", "joint")
"""The roles of graphs whose results have gradients: autograd differentiates none of them twice."""


@dataclass(frozen=True)
class GraphFacts:
    """What AOTAutograd knew of a graph, beside the graph itself."""

    role: Role
    static_inputs: tuple[int, ...]
    wrapped: air_aclgraph.Wrapped
    written: Written
    declared: Mapping[str, Mapping[int, Declared]]
    """Buckets and gears of the inputs: attribute, position, dim -> sizes."""
    repeats: Repeats | str = ""
    """How a forward half runs again, or why it may not."""

    @classmethod
    def now(cls, role: Role, gm: fx.GraphModule) -> GraphFacts:
        """As the compilation in progress says."""
        values = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
        if JOINED in gm.meta:
            role = "joint"
        wrapped, declared = air_aclgraph.Wrapped.now(), declared_sizes_of(values)
        repeats = repeats_of(gm) if role in WITH_BACKWARD else ""
        return cls(role, air_graph.static_inputs(gm), wrapped, Written.now(), declared, repeats)

    def declare(self, inputs: Sequence[Any]) -> None:
        """Declares on the inputs of a graph that was read what was declared on those of the one that was written."""
        for attribute, positions in self.declared.items():
            for position, sizes in positions.items():
                setattr(inputs[position], attribute, sizes)


def declared_sizes_of(inputs: Sequence[Any]) -> dict[str, Mapping[int, Declared]]:
    """Buckets and gears that were declared on inputs of a graph."""
    return {name: declared_by_position(inputs, name) for name in (BUCKETS.attribute, GEARS.attribute)}


@dataclass(frozen=True)
class Compilation:
    """The configuration, the folder of debug files, and the way of calls past AOTAutograd's wrapper."""

    config: CompilerConfig
    folder: DebugFolder | None = None
    to_file: bool = False
    """Whether what is compiled is written into a file, or comes from one."""
    objects: Mapping[str, int] = field(default_factory=dict)
    """Streams and events of the program that the graph names: the number of Dynamo for each."""
    outside: air_streams.Outside = field(default_factory=air_streams.Outside)
    """Those of them that code outside the graph may use as well."""
    direct_call: air_aclgraph.DirectCall = field(default_factory=air_aclgraph.DirectCall)
    sharing: Sharing = field(default_factory=Sharing)
    repeatable: Repeatable = field(default_factory=Repeatable)
    layers: HeldLayers = field(default_factory=HeldLayers)
    """What lay under the configuration when the compilation began: a backward half is compiled later."""

    def compile(
        self, gm: fx.GraphModule, example_inputs: Sequence[Any], known: GraphFacts
    ) -> Callable[..., Any]:
        """Compiles a graph; the result takes one list, which it may empty."""
        with self.layers.again():
            return self._compile(gm, example_inputs, known)

    def _compile(
        self, gm: fx.GraphModule, example_inputs: Sequence[Any], known: GraphFacts
    ) -> Callable[..., Any]:
        half = None
        if known.role == "backward":
            _keep_what_is_saved()
            half = BackwardHalf(gm, _places_of_tangents(gm), self.config)
        else:
            self.sharing.learn(known.written)
        if known.role in WITH_BACKWARD:
            self.repeatable.is_compiled, self.repeatable.repeats = True, known.repeats
        record, run = compile_aten(
            gm,
            example_inputs,
            self.config,
            role=known.role,
            static_inputs=known.static_inputs,
            folder=self.folder,
            to_file=self.to_file,
        )
        _records.keep(record, run)
        outside = replace(self.outside, tagged=record.awaited or self.outside.tagged)
        if known.role == "backward":  # its forward has seen to them
            outside = replace(outside, tagged=record.awaited, limits=())
        if known.role == "inference" and isinstance(run, air_aclgraph.AnyExecutable):
            executor = InOrder(run, outside, record.ground) if outside else run
            return self.direct_call.enter(executor, known.wrapped)
        if half is None:
            call = _boxed(run)
            return boxed(outside.around(call, record.ground)) if outside else call
        return boxed(air_aclgraph.outside_modes(half.calling(_boxed(run), lambda: record.closed)))

    @property
    def front(self) -> dict[str, Any]:
        """How AOTAutograd is asked to make graphs."""
        return {
            "partition_fn": partition_of(self.config.layered(JOINT_GRAPH)),
            "keep_inference_input_mutations": self.config.layered(KEEP_MUTATIONS),
        }

    def by_engine_of_device(self, inputs: Sequence[Any]) -> bool:
        """Whether an engine of an NPU compiles the graphs."""
        on_npu = any(isinstance(value, Tensor) and value.device.type == "npu" for value in inputs)
        return on_npu and bool(self.config.layered("mode") == "max-autotune")

    def ahead(self, inputs: Sequence[Any]) -> bool:
        """Whether the backward is compiled beside the forward, and not when it is first called."""
        wanted = self.config.layered("air.compile_ahead") and torch._dynamo.config.repro_after is None
        wrapped = any(is_traceable_wrapper_subclass(value) for value in inputs)
        return bool(wanted) and not wrapped and self.by_engine_of_device(inputs)

    def compiler(self, role: Role, *, ahead: bool = False) -> Callable[..., Any]:
        """A compiler of the graphs with one role, wrapped so that torch's minifier can cut in.

        What fails `ahead` fails when the graph is called: a program may never call it.
        """

        def compile_role(gm: fx.GraphModule, example_inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
            try:
                return self.compile(gm, example_inputs, GraphFacts.now(role, gm))
            except Exception as error:
                if not ahead:
                    raise
                return _failing(error)

        return _minifier.watched(compile_role, self.config)


def _places_of_tangents(gm: fx.GraphModule) -> list[int]:
    gradients = tangents_of(gm)
    return [at for at, node in enumerate(gm.graph.find_nodes(op="placeholder")) if node in gradients]


def _keep_what_is_saved() -> None:
    """Says that the backward in compilation leaves alone what its forward saved: the program may run it twice.

    torch says so itself of a backward that is compiled in its first call.
    """
    context = TracingContext.try_get()
    if context is not None and context.fw_metadata is not None:
        context.fw_metadata.bw_donated_idxs = []


def _failing(error: Exception) -> Callable[[list[Any]], Any]:
    """Stands for a graph that could not be compiled."""

    def call(args: list[Any]) -> Any:
        raise error

    return boxed(call)


def _boxed(run: Callable[..., Any]) -> Callable[..., Any]:
    """The calling convention AOTAutograd prefers: one list, which the callee may empty."""
    inner = getattr(run, "boxed", None)
    made: Callable[..., Any] = make_boxed_func(run) if inner is None else boxed(lambda args: inner(args))
    return made
