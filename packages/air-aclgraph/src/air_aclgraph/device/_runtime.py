"""The accelerator runtime: npu (on hardware or on air-sim) and cuda, through their torch device modules.

One capture stream and one memory pool serve all shape keys and all graphs of the runtime: a caching
allocator hands a block on only within one stream, so captures on different streams would share nothing.
A failed capture is ended, its graph reset and the device synchronised before the error goes up; one that lacked
memory is made again where the allocator had cached some.
"""

from __future__ import annotations

import gc
import logging
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import ModuleType
from typing import Any, Final

import torch
from torch import Tensor
from torch.fx import Node

import air_streams
from air_aclgraph import _addresses, _copies
from air_aclgraph._conditions import captured, is_conditional_node
from air_aclgraph._decisions import decision
from air_aclgraph._kept import Holders
from air_aclgraph._memory import tensors_of
from air_aclgraph._runtime import (
    Abilities,
    Body,
    Limits,
    Recording,
    Request,
    StreamTest,
    UpdatableCall,
)
from air_aclgraph._uncapturable import uncapturable
from air_aclgraph.device import _cuda, _npu
from air_aclgraph.device._driver import replay_error, translate
from air_aclgraph.device._own import let_alone, moved_out, not_of_the_capture, reserved, weakened
from air_aclgraph.device._updates import TaskGroups, UpdateStream
from air_aclgraph.device._weak import weak_tensor
from air_aclgraph.errors import AclGraphError, CaptureFailed, OutOfMemory, Unsupported
from air_graph import is_captured
from air_graph.forks import new_lock

log = logging.getLogger(__name__)

_ONLY_LOGS: Final = frozenset(("log", "debug", "id", "super", "replay"))
_GRAPHS: Final = {"npu": "NPUGraph", "cuda": "CUDAGraph"}
"""The class of a captured graph, in the device module."""
_CUDA: Final = Abilities()
_NPU: Final = Abilities(parameter_update=True, core_limits=True, super_kernel=True, deterministic_level=True)


class AcceleratorRuntime:
    """Captures on an accelerator through its torch device module."""

    def __init__(self, device: torch.device | str) -> None:
        self.device = torch.device(device)
        self.name = self.device.type
        if self.name not in _GRAPHS:
            raise Unsupported(
                f"nothing is captured on {self.name!r} devices: there are runtimes for {', '.join(_GRAPHS)} and cpu",
                advice="move the model and its inputs to one of them, or run it with run_eagerly",
                runtime=self.name,
            )
        self.lock = new_lock()
        self.abilities = _NPU if self.name == "npu" else _CUDA
        self._module: ModuleType = torch.get_device_module(self.device.type)
        self._graph_class: Any = getattr(self._module, _GRAPHS[self.name])
        self._pool: Any = None
        self._anchors: dict[Any, Any] = {}
        self._living: Counter[Any] = Counter()
        self._spoilt: set[Any] = set()
        self._capture_stream: Any = None
        self._last_stream: Any = None
        # of all captures: their replays share memory, and must not run at the same time
        self._last_token = [-1]
        self._update_stream: UpdateStream | None = None
        self._entry: Any = None
        self._captured = False  # whether the body that runs is part of a capture
        self._stack: list[Any] = []
        self._limits: list[tuple[Any, Any]] = []
        self._levels: list[int] = []
        self._groups: TaskGroups | None = None
        self._graph: Any = None
        self._raw_stream = _raw_stream(self.name)

    # streams and events

    def stream(self, tag: str, priority: int) -> Any:
        return air_streams.stream_for(tag, self.device, priority=priority)

    def enter_stream(self, stream: Any) -> None:
        context = self._module.stream(self._entry if stream is None else stream)
        context.__enter__()
        self._stack.append(context)

    def exit_stream(self) -> None:
        self._stack.pop().__exit__(None, None, None)

    def limit_cores(self, aicore: int, vectorcore: int) -> None:
        stream = self._module.current_stream(self.device)
        before = self._module.get_stream_limit(stream)
        self._module.set_stream_limit(stream, aicore, vectorcore)
        self._limits.append((stream, before))

    def restore_cores(self) -> None:
        stream, before = self._limits.pop()
        self._module.set_stream_limit(stream, before["cube_core_num"], before["vector_core_num"])

    def enter_determinism(self, level: int) -> None:
        self._levels.append(_npu.set_determinism(level))

    def exit_determinism(self) -> None:
        _npu.set_determinism(self._levels.pop())

    def updatable(self, call: UpdatableCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._groups is None:
            return call.overload(*args, **kwargs)
        level = _npu.determinism() if self._levels else None
        return self._groups.capture(call, args, kwargs, level, self._cores())

    def _cores(self) -> tuple[int, int] | None:
        """The limits of cores in force inside a scope that sets them."""
        if not self._limits:
            return None
        limits = self._module.get_stream_limit(self._module.current_stream(self.device))
        return limits["cube_core_num"], limits["vector_core_num"]

    def higher_order(self, node: Node) -> Callable[..., Any] | None:
        if is_conditional_node(node, self.device, uncapturable):
            return partial(self._condition, node)
        if (found := decision(node, self.name)) is not None:
            raise found.error(self.name)
        return None

    def _condition(self, node: Node, *args: Any) -> Any:
        """A `cond`: a conditional node where the graph is being captured, a choice of the host elsewhere."""
        target: Any = node.target
        return target(*args) if self._graph is None else captured(self._graph, node, args)

    def new_event(self) -> Any:
        return self._module.Event()

    def record_event(self, event: Any) -> None:
        event.record(self._module.current_stream(self.device))

    def wait_event(self, event: Any) -> None:
        stream = self._module.current_stream(self.device)
        stream.wait_event(event)
        if self._captured:
            _npu.flush(stream)

    def use_on_stream(self, tensor: Tensor, stream: Any) -> None:
        tensor.record_stream(self._entry if stream is None else stream)

    # capture

    def run(self, body: Body, inputs: Sequence[object]) -> Any:
        # after the last run or replay: what it has on side streams may still be read by the stream that called it
        current = partial(self._raw_stream, self.device.index or 0)
        if current() != self._last_token[0]:
            self._switch_stream(current)
        outer, self._groups = self._groups, None  # a call inside a capture is no part of its graph's updates
        graph, self._graph = self._graph, None
        try:
            with torch.no_grad(), self._balanced():
                return body(*inputs)
        finally:
            self._groups, self._graph = outer, graph

    @contextmanager
    def _balanced(self) -> Iterator[None]:
        """Leaves every stream, limit and level that the body entered, also when it raised in the middle."""
        depth, limits, levels = len(self._stack), len(self._limits), len(self._levels)
        around = self._entry, self._captured
        self._entry = self._module.current_stream(self.device)
        self._captured = self.name == "npu" and self.is_recording()
        try:
            yield
        finally:
            while len(self._levels) > levels:
                self.exit_determinism()
            while len(self._limits) > limits:
                self.restore_cores()
            while len(self._stack) > depth:
                self.exit_stream()
            self._entry, self._captured = around

    def record(self, body: Body, inputs: Sequence[object], request: Request) -> Recording:
        self._refuse(request)
        try:
            return self._translated(body, inputs, request)
        except OutOfMemory as error:
            for one in filter(None, (error, error.__cause__)):
                traceback.clear_frames(one.__traceback__)  # they hold what was captured
            if not self._gives_memory_back():
                raise
        return self._translated(body, inputs, request)

    def _gives_memory_back(self) -> bool:
        """Whether the allocator had memory that nobody uses: inside a capture it gives back none of it, and fails."""
        before = self._module.memory_reserved(self.device)
        self._module.empty_cache()
        given = before - self._module.memory_reserved(self.device)
        if given > 0:
            log.info("a capture is made again: %d bytes of cached memory were given back", given)
        return bool(given > 0)

    def _translated(self, body: Body, inputs: Sequence[object], request: Request) -> Recording:
        try:
            return self._recorded(body, inputs, request)
        except AclGraphError:
            raise
        except RuntimeError as error:
            raise translate(error, self._known_limits()) from error
        finally:
            self._groups = None

    def _recorded(self, body: Body, inputs: Sequence[object], request: Request) -> Recording:
        if self._capture_stream is None:
            self._capture_stream = self._module.Stream(device=self.device)
        before = self._module.memory_reserved(self.device)
        self.synchronize()
        pool = self._pool_for(request)
        groups = TaskGroups(self._module)
        if not request.own_pool:
            self._anchor(pool)
        self._groups = groups if self.abilities.parameter_update else None
        graph, outputs = self._capture(body, inputs, request, pool)
        try:
            groups.check_order()
            if request.super_kernel:
                _npu.super_kernel(graph, request)
        except BaseException:
            graph.reset()
            raise
        if request.share_outputs:
            outputs = weakened(outputs, not_of_the_capture(inputs, outputs))
        if request.own_pool:
            outputs = let_alone(outputs, not_of_the_capture(inputs, outputs))
        nbytes = max(0, self._module.memory_reserved(self.device) - before)
        replay_with = groups.replayer(replay_of(graph), self._updates()) if groups.groups else None

        def release() -> None:
            gone()
            graph.reset()

        recording = Recording(
            replay_of(graph), outputs, nbytes, 0, False, release, replay_with=replay_with,
            explain_error=partial(replay_error, graph=request.graph, where=request.where),
            claims=Holders(tensors_of((outputs, groups.held()))).claims() if _is_alone(request) else {},
            holders=Holders(tensors_of((inputs, outputs, groups.held()))),
        )  # fmt: skip
        self._living[pool] += 1
        gone = weakref.finalize(recording, self._living.subtract, (pool,))  # also when nobody releases it
        return recording

    def _known_limits(self) -> Limits:
        """The limits for a message; a device that has just failed may not tell."""
        try:
            return self.limits()
        except RuntimeError:
            return Limits()

    def _anchor(self, pool: Any) -> None:
        """Keeps a pool alive between the end of its last graph and the next: it cannot be entered twice."""
        if pool in self._anchors:
            return
        graph, place = self._graph_class(), self._place()
        with self._module.stream(self._capture_stream):
            try:
                graph.capture_begin(pool=pool, capture_error_mode="relaxed")
                if place is not None:
                    place.zero_()
                graph.capture_end()
            except BaseException:
                self._abandon(graph, pool)
                self._spoilt.add(pool)  # its only graph has ended: it cannot be entered again
                if pool == self._pool:
                    self._pool = None
                raise
        self._anchors[pool] = graph

    def _place(self) -> Tensor | None:
        """What a capture may write that is never replayed: torch warns of a CUDA graph with nothing in it."""
        return torch.empty(1, device=self.device) if self.name == "cuda" else None

    def unowned(self, tensor: Tensor) -> Tensor:
        return weak_tensor(tensor)

    def trim(self) -> None:
        """Gives back the pools that no recording uses any more."""
        for pool in [p for p in self._anchors if not self._living[p]]:
            if pool == self._pool:
                self._pool = None  # before it is gone: an interrupt may come between
            self._anchors.pop(pool).reset()

    def _updates(self) -> UpdateStream:
        if self._update_stream is None:
            self._update_stream = UpdateStream(self._module, self.device)
        return self._update_stream

    def _pool_for(self, request: Request) -> Any:
        if request.pool in self._spoilt:
            raise CaptureFailed(
                f"the memory pool {request.pool} was left unusable by a capture that failed in it",
                advice="compile with another use_custom_pool, or without one",
            )
        if request.pool is not None:
            return request.pool
        if not request.share_pool or request.own_pool:
            return self._module.graph_pool_handle()
        if self._pool is None:
            self._pool = self._module.graph_pool_handle()
        return self._pool

    def _refuse(self, request: Request) -> None:
        if request.super_kernel and not self.abilities.super_kernel:
            raise Unsupported(
                f"the {self.name} runtime has no super kernel",
                advice="switch _super_kernel_optimize off: it exists on Ascend NPUs only",
                option="_super_kernel_optimize",
                runtime=self.name,
            )

    def _capture(
        self, body: Body, inputs: Sequence[object], request: Request, pool: Any
    ) -> tuple[Any, tuple[Any, ...]]:
        module = self._module
        graph = self._graph_class()
        reserve = None if request.sample is None else reserved(*request.sample)
        collecting = gc.isenabled()
        gc.disable()  # a finaliser that frees device memory in the middle would invalidate the capture
        entry = module.current_stream(self.device)  # what it allocates is none of the pool's
        self._capture_stream.wait_stream(entry)
        try:
            with self._limited_as(entry), module.stream(self._capture_stream):
                try:
                    graph.capture_begin(pool=pool, capture_error_mode=request.error_mode)
                    self._graph = graph
                    with torch.no_grad(), self._balanced():
                        outputs = tuple(body(*inputs))
                        self._graph = None
                        if reserve is not None:
                            elsewhere = partial(module.stream, entry)
                            known = not_of_the_capture(inputs, outputs)
                            outputs = moved_out(outputs, known, reserve, elsewhere)
                    graph.capture_end()
                except BaseException:
                    self._abandon(graph, pool)
                    raise
        finally:
            self._graph = None
            if collecting:
                gc.enable()
        module.current_stream(self.device).wait_stream(self._capture_stream)
        return graph, outputs

    @contextmanager
    def _limited_as(self, entry: Any) -> Iterator[None]:
        """What is captured keeps to the core limits that the caller's stream has now."""
        limits: Any = getattr(self._module, "get_stream_limit", None) if self.abilities.core_limits else None
        wanted, own = ({}, {}) if limits is None else (limits(entry), limits(self._capture_stream))
        if wanted == own:
            yield
            return
        self._module.set_stream_limit(
            self._capture_stream, wanted["cube_core_num"], wanted["vector_core_num"]
        )
        self._limits.append((self._capture_stream, own))
        try:
            yield
        finally:
            self.restore_cores()

    def _abandon(self, graph: Any, pool: Any) -> None:
        """Ends a capture that failed, whether at its begin, in the middle, or at its end.

        A begin or an end that the driver refuses leaves the allocator taking captures into this pool for begun
        for good: what is captured next takes another pool, and this one goes with its last graph.
        """
        with suppress(RuntimeError):
            graph.capture_end()
            graph.reset()
            return
        graph.reset()
        extension = _npu.torch_npu()._C if self.name == "npu" else torch._C
        index = self.device.index or 0
        older = getattr(extension, f"_{self.name}_endAllocateCurrentStreamToPool", None)  # torch_npu 2.11
        with suppress(RuntimeError):  # what is not open cannot be closed
            (older or getattr(extension, f"_{self.name}_endAllocateToPool"))(index, pool)
            getattr(extension, f"_{self.name}_releasePool")(index, pool)
        self._settle_generator()
        self._spoilt.add(pool)
        if pool == self._pool:
            self._pool = None

    def _settle_generator(self) -> None:
        """Draws of random numbers outside captures work again on CUDA after one whose end the driver refused.

        torch leaves its generator taking part in that capture; it is let go at the end of the next one.
        """
        if (place := self._place()) is None:
            return
        graph = self._graph_class()
        with suppress(RuntimeError):
            graph.capture_begin(capture_error_mode="relaxed")
            place.zero_()
            graph.capture_end()
        graph.reset()

    # calls

    def ready(self) -> StreamTest:
        """Orders replays made from different streams; says no when the caller's stream is being captured."""
        current = partial(self._raw_stream, self.device.index or 0)
        return StreamTest(current, self._last_token, partial(self._switch_stream, current))

    def turn(self) -> None:
        """A replay is one launch, which runs no Python: nothing can be called inside it."""

    def _switch_stream(self, token: Callable[[], int]) -> bool:
        if self.is_recording():
            return False
        current = self._module.current_stream(self.device)
        last = self._last_stream
        if last is not None and last != current and not is_captured(last):
            current.wait_stream(last)
        self._last_stream = current
        self._last_token[0] = token()
        return True

    def is_recording(self) -> bool:
        return bool(self._module.is_current_stream_capturing())

    def address_tests(self) -> _addresses.AddressTests:
        modules = [_npu.torch_npu()._C, torch._C] if self.name == "npu" else [torch._C]
        return _addresses.compiled() or _addresses.of_extension(*modules) or _addresses.mapped

    def copies(self) -> _copies.Copies | None:
        index = self.device.index or 0
        return _cuda.copies(index) if self.name == "cuda" else _npu.copies(index)

    def copies_back(self) -> _copies.Copies | None:
        return None if self.name == "cuda" else _npu.copies_back(self.device.index or 0)

    def buffer_like(self, tensor: Tensor) -> Tensor | None:
        """A buffer for a tensor whose memory is not plain strided; None when an ordinary one will do."""
        return _npu.formatted_like(tensor) if tensor.device.type == "npu" else None

    def pool_nbytes(self) -> int:
        if self._pool is None:
            return 0
        pool = tuple(self._pool)
        return sum(
            int(segment["total_size"])
            for segment in self._module.memory_snapshot()
            if tuple(segment.get("segment_pool_id", ())) == pool
        )

    def limits(self) -> Limits:
        free, _ = self._module.mem_get_info(self.device)
        if self.name != "npu":
            return Limits(free_bytes=free)
        return Limits(streams=_npu.STREAMS, events=_npu.EVENTS, free_bytes=free)

    def synchronize(self) -> None:
        self._module.synchronize(self.device)


def _is_alone(request: Request) -> bool:
    """Whether no other capture has memory in common with the outputs of one."""
    return request.sample is not None or request.own_pool


def replay_of(graph: Any) -> Callable[[], None]:
    """`graph.replay`, without the Python method where that does nothing but log and call the extension's."""
    method = type(graph).__dict__.get("replay")
    names = getattr(getattr(method, "__code__", None), "co_names", ("unknown",))
    replay: Callable[[], None] = graph.replay
    if _ONLY_LOGS.issuperset(names):
        replay = super(type(graph), graph).replay
    return replay


def _raw_stream(name: str) -> Callable[[int], int]:
    """The cheapest number that tells the current stream from others."""
    if name == "cuda":
        return torch._C._cuda_getCurrentRawStream
    extension = _npu.torch_npu()._C
    found: Any = getattr(extension, "_npu_getCurrentRawStreamNoWait", None)
    return found or extension._npu_getCurrentRawStream  # type: ignore[no-any-return]  # untyped extension
