"""Keeps a compilation where torch keeps compilations: in its cache on disk, and in the files of `aot_compile`.

    torch.compile(model, backend="air", options={"air.cache.save": True})     # torch's cache of AOTAutograd
    torch.compile(f, backend="air", fullgraph=True).aot_compile(((x,), {}))   # a file, by save_compiled_function

What is kept is the graph as AOTAutograd made it, before streams, passes and executors see it, with what AOTAutograd
knew of it. The process that finds it lowers it again, with its own configuration: tracing is what takes long, and
addresses, captures and loaded engines belong to a process anyway. torch makes the key: the graph of Dynamo, the
inputs, versions, and the settings of torch; `_mark` adds what is ours. A lowering works in the sizes that it was traced
with, in a shape environment of its own; the conditions on sizes that it relied on are kept by torch, and checked.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Context, ContextVar, copy_context
from dataclasses import replace
from typing import Any, Final

import torch
from torch import fx
from torch._dynamo.aot_compile_types import SerializableCallable
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.aot_autograd_result import deserialize_bundled_cache_entry
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._guards import TracingContext, tracing
from torch._higher_order_ops.schema import HopSchema
from torch._inductor.output_code import OutputCode
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.fx._graph_pickler import GraphPickler, Options
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv

import air_streams
from air_backend import _engine_files
from air_backend._compilation import JOINT_GRAPH, Compilation, GraphFacts, declared_sizes_of
from air_backend._floats_in_cache import floats_compared
from air_backend._for_dynamo import for_dynamo
from air_backend._hidden_writes import Around
from air_backend._keeping import NOT_KEPT
from air_backend._kinds import example_values
from air_backend._meshes import forget_meshes
from air_backend._overlapping_results import layout_of_gradients
from air_backend._record import Role
from air_backend._shared_memory import Sharing
from air_backend._version import __version__
from air_backend.dump import readable
from air_backend.eager_calls._shared_calls import shared_as_traced
from air_backend.eager_calls._tangents import with_tangents
from air_backend.errors import CannotSave
from air_config import CompilerConfig
from air_graph import SAVED_RESULTS
from air_graph.errors import first_line

log = logging.getLogger(__name__)

METADATA: Final = ("val", "tensor_meta", "stack_trace", "custom", "partitioner_tag", SAVED_RESULTS)
"""What of a node's metadata a lowering reads; the rest may hold objects of the process."""

TORCH_SETTINGS: Final = {
    "bundled_autograd_cache": True,  # the graph lies in the entry itself, not in Inductor's cache
    "force_non_lazy_backward_lowering": True,  # an entry holds forward and backward
}

_UNREADABLE: Final = "air.cache.save: the graph that was kept cannot be used, and is compiled anew: %s: %s"
_in_progress: Final[ContextVar[Compilation | None]] = ContextVar("air_backend_compilation", default=None)


class _Pickler(GraphPickler):
    """torch's, with torch's own constants by their names, tensors of a device by way of the host, and schemas whole.

    pickle looks for those constants in every module there is, and takes the first that imports torch, often one of the
    user's. torch_npu writes storages of a device with warnings, and reads them into the memory of the host. Of a schema
    of an operator with graphs inside, it leaves out what was added in Python.
    """

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, (torch.dtype, torch.layout, torch.memory_format)):
            return _constant_of_torch, (str(obj).removeprefix("torch."),)
        if type(obj) is torch.Tensor and obj.device.type not in ("cpu", "meta"):
            return _on_device, (obj.detach().cpu(), str(obj.device))
        if isinstance(obj, HopSchema):
            return _schema, (obj.__getstate__(), vars(obj))  # type: ignore[attr-defined]  # of a class in C++
        return super().reducer_override(obj)


def _constant_of_torch(name: str) -> Any:
    return getattr(torch, name)


def _on_device(value: torch.Tensor, device: str) -> torch.Tensor:
    return value.to(device)


def _schema(state: Any, added: Mapping[str, Any]) -> HopSchema:
    schema = HopSchema.__new__(HopSchema)
    schema.__setstate__(state)  # type: ignore[attr-defined]  # of a class in C++
    vars(schema).update(added)
    return schema


class Saved(OutputCode):
    """A compiled graph that torch can write down: the bytes of the graph, and in this process what runs it.

    There are no bytes where the graph cannot be written; torch keeps nothing then.
    """

    def __init__(
        self,
        graph: bytes,
        known: GraphFacts,
        config: CompilerConfig,
        objects: Mapping[str, int],
        outside: air_streams.Outside,
        sharing: Sharing,
    ) -> None:
        super().__init__()
        self._boxed_call = True  # torch looks for it among the attributes of the object itself
        self._graph = graph
        self._known = known
        self.config = config
        self._objects = dict(objects)
        self._outside = outside
        self.sharing = replace(sharing, written=known.written, arguments=sharing.arguments.short())
        self._run: Callable[..., Any] | None = None
        self._lowering: Context | None = None

    def run_by(self, run: Callable[..., Any]) -> None:
        """Says what runs the graph in this process."""
        self._run = run

    @classmethod
    def of(cls, gm: fx.GraphModule, known: GraphFacts, compilation: Compilation) -> Saved:
        """The bytes of a graph that is about to be compiled; what runs it comes with `post_compile`."""
        options = Options(ops_filter=None, node_metadata_key_filter=METADATA.__contains__)
        try:
            with unset_fake_temporarily():  # constants on a device go through the host, as they are
                written = _Pickler.dumps(gm, options)
        except Exception as error:  # whatever writing an object of a graph raises
            reason = f"its graph cannot be written ({type(error).__name__}: {first_line(error)})"
            if compilation.to_file:
                raise CannotSave(reason) from error
            log.warning(NOT_KEPT, reason)
            written = b""
        saved = cls(
            written,
            known,
            compilation.config,
            compilation.objects,
            compilation.outside,
            compilation.sharing,
        )
        if compilation.to_file:
            saved.refuse_unreadable()
        return saved

    def refuse_unreadable(self) -> None:
        """Raises where torch writes values that it cannot read: with sizes that depend on data, some of them."""
        try:
            self.graph_module()
        except GuardOnDataDependentSymNode as error:
            raise CannotSave(
                "sizes in its graph depend on data, and torch cannot read such values from a file"
            ) from error

    def __call__(self, inputs: Sequence[Any]) -> Any:
        if self._run is None:  # `post_compile` has left it to the first call
            assert self._lowering is not None, "post_compile comes before the first call"
            self._lowering.run(self._lower)
        assert self._run is not None
        return self._run(inputs)

    def prepare_for_serialization(self) -> None:
        """Leaves behind what belongs to the process; torch calls it on a copy, and keeps nothing where it raises."""
        if not self._graph:
            raise BypassAOTAutogradCache("the graph cannot be written")
        self._run = self._lowering = None

    def post_compile(self, *_: Any) -> None:
        """Lowers the graph in the process that found it: now, or in the first call, when its objects are known."""
        if self._run is not None:
            return
        self._lowering = copy_context()
        if self._objects:
            return
        try:
            self._lower()
        except Exception as error:
            compilation = _in_progress.get()
            if compilation is not None and not compilation.to_file:  # torch goes on without what it found
                log.warning(_UNREADABLE, type(error).__name__, first_line(error))
            raise

    def _lower(self) -> None:
        gm, mode = self.graph_module()
        compilation = _in_progress.get() or Compilation(self.config)
        if not compilation.objects:  # else Dynamo has traced the program here, and found the very same names
            air_streams.rename_objects(gm, self._objects)
            compilation = replace(compilation, objects=self._objects, outside=self._outside)
        with tracing(TracingContext(mode)):
            inputs = example_values(gm)
            self._known.declare(inputs)
            self._run = compilation.compile(gm, inputs, self._known)

    def graph_module(self) -> tuple[fx.GraphModule, FakeTensorMode]:
        """The graph as AOTAutograd made it, and the mode of its values; it brings its sizes along."""
        mode = FakeTensorMode(shape_env=ShapeEnv())
        gm = GraphPickler.loads(self._graph, mode)
        assert isinstance(gm, fx.GraphModule)
        gm.recompile()
        return gm, mode

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Nothing: the lowering makes no Triton kernels."""


class SavedFunction(SerializableCallable):
    """What the backend returns to `aot_compile`, which writes it into a file."""

    def __init__(self, call: Callable[..., Any], serialize: Callable[[], Any]) -> None:
        self._call = call
        self._serialize = serialize

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)

    def text(self) -> str:
        """The graph, for people."""
        gm, _ = self._serialize().compiled_fw.result.graph_module()
        return readable(gm)

    @classmethod
    def serialize_compile_artifacts(cls, fn: SavedFunction) -> bytes:
        with torch._functorch.config.patch(TORCH_SETTINGS):
            return pickle.dumps(fn._serialize())

    @classmethod
    def deserialize_compile_artifacts(cls, data: bytes) -> SavedFunction:
        entry = pickle.loads(data)
        saved: Saved = entry.compiled_fw.result
        compilation = Compilation(saved.config, to_file=True, sharing=saved.sharing)
        with in_progress(compilation):
            compiled = deserialize_bundled_cache_entry(entry)
        call = compilation.direct_call.around(compiled, with_tangents(None, saved.config))
        call = shared_as_traced(call, None, compilation.sharing, saved.config)
        return cls(call, vars(compiled)["serialize"])


def through_aot(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    compilation: Compilation,
    decompositions: Mapping[Any, Callable[..., Any]],
    around: Around,
    original: fx.GraphModule,
) -> Callable[..., Any]:
    """As the backend does it where nothing is kept; what torch has kept of this graph it finds."""
    _mark(gm, compilation)
    with (
        _engine_kept(example_inputs, compilation),
        contextlib.nullcontext() if compilation.to_file else floats_compared(),
        in_progress(compilation),
        torch._functorch.config.patch({**TORCH_SETTINGS, **layout_of_gradients(gm)}),
    ):
        forget_meshes()
        compiled: Callable[..., Any] = aot_autograd(
            fw_compiler=_saving(compilation, "forward"),
            bw_compiler=_saving(compilation, "backward"),
            inference_compiler=_saving(compilation, "inference"),
            decompositions=dict(decompositions),
            **compilation.front,
        )(gm, example_inputs)
    call = for_dynamo(compiled, gm, original, compilation, around)
    return SavedFunction(call, vars(compiled)["serialize"]) if compilation.to_file else call


def _engine_kept(inputs: Sequence[Any], compilation: Compilation) -> contextlib.AbstractContextManager[None]:
    """Keeps what an engine makes of these graphs as well, where one compiles and torch's cache is asked for."""
    if compilation.to_file or not compilation.by_engine_of_device(inputs):
        return contextlib.nullcontext()
    return _engine_files.beside_traced_graphs()


@contextlib.contextmanager
def in_progress(compilation: Compilation) -> Iterator[None]:
    """Makes a compilation the one by which graphs found inside are lowered."""
    token = _in_progress.set(compilation)
    try:
        yield
    finally:
        _in_progress.reset(token)


def _saving(compilation: Compilation, role: Role) -> SerializableAOTDispatchCompiler:
    """The compiler of the graphs with one role, of which torch keeps the results."""

    def compile_role(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Saved:
        known = GraphFacts.now(role, gm)
        saved = Saved.of(gm, known, compilation)
        saved.run_by(compilation.compile(gm, example_inputs, known))
        return saved

    return SerializableAOTDispatchCompiler(Saved, compile_role)


def _mark(gm: fx.GraphModule, compilation: Compilation) -> None:
    """Puts into a graph, and so into torch's key for it, what the key lacks: us, how it is divided, sizes that were
    declared on inputs, the memory that inputs share, annotations and the user's lines.

    What goes into a file has a key that nobody finds again. Torch asks its cache for such a graph too, which may hold
    one that was made with other decompositions, and runs what it reads there.
    """
    joint = compilation.config.layered(JOINT_GRAPH)
    hasher = hashlib.sha256(
        f"air {__version__} {'joint' if joint else ''} with conditions on floats, schemas whole".encode()
    )
    inputs = [node.meta.get("example_value") for node in gm.graph.find_nodes(op="placeholder")]
    hasher.update(repr((declared_sizes_of(inputs), compilation.sharing.traced.groups)).encode())
    for node in gm.graph.nodes:
        hasher.update(repr((node.meta.get("custom"), node.meta.get("stack_trace"))).encode())
    if compilation.to_file:
        hasher.update(os.urandom(16))
    vars(gm)["_air_key"] = hasher.hexdigest()
