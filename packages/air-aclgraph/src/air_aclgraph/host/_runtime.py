"""The host runtime: capture and replay of plain CPU tensors.

It keeps the rules of a device: addresses are frozen at capture, an operator that needs the host is refused,
streams are ordered by events alone.  A replay repeats the recorded kernels into the recorded memory, so a
step allocates nothing that its kernels do not allocate themselves.  With `order="shuffled"` every replay is
a different order that the streams and events allow: a missing wait gives wrong numbers here, on any laptop,
instead of once a week on a device.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node

from air_aclgraph import _addresses
from air_aclgraph._decisions import decision, unused_results
from air_aclgraph._kept import Holders
from air_aclgraph._memory import tensors_of
from air_aclgraph._outputs import cloner
from air_aclgraph._runtime import Abilities, Body, Limits, Recording, Request, UpdatableCall
from air_aclgraph.errors import Unsupported
from air_aclgraph.host._arena import Arena, Chunk, place_in, plan
from air_aclgraph.host._generated import record_generated
from air_aclgraph.host._program import keep_what_is_read, legal_order, straight_replay
from air_aclgraph.host._recorder import Patch, Recorder, Task, gives_the_same
from air_aclgraph.host._stand_ins import Block
from air_aclgraph.host._turns import Turns, may_call_back
from air_graph import Ownership, same_place, storage_of
from air_graph import source_of as where


class _ThreadState(threading.local):
    """What a thread records into."""

    recorder: Recorder | None = None


class HostRuntime:
    """Records one run of a function of CPU tensors and repeats it."""

    name = "host"
    abilities = Abilities(runs_while_recording=True, parameter_update=True, follows_tensors=True)

    def __init__(self, *, order: Literal["program", "shuffled"] = "program", seed: int = 0) -> None:
        self.device = torch.device("cpu")
        self._turns = Turns()
        self.lock = self._turns.lock
        self._order = order
        self._seeds = itertools.count(seed)
        self._arena = Arena()
        self._here = _ThreadState()
        self._streams: dict[str, int] = {}
        self._stack: list[int] = []
        self._events = itertools.count(1)

    def run(self, body: Body, inputs: Sequence[object]) -> Any:
        outer, self._here.recorder = self._here.recorder, None  # a call inside a kernel is not recorded
        try:
            with self._turns.open(), torch.no_grad():
                return body(*inputs)
        finally:
            self._here.recorder = outer

    def record(self, body: Body, inputs: Sequence[object], request: Request) -> Recording:
        if request.pool is not None:
            raise Unsupported(
                "the host runtime has no memory pool handles",
                advice="leave use_custom_pool unset for CPU tensors: all graphs of a runtime share one arena",
                option="use_custom_pool",
                runtime=self.name,
            )
        recorder = _OpenRecorder(inputs, self._turns)
        self._here.recorder = recorder
        try:
            # Tensors made in inference mode could not be written by a replay outside it.
            mode = torch.inference_mode(request.in_inference_mode)
            with self._turns.taking(), mode, torch.no_grad(), recorder:
                results = body(*inputs)
        finally:
            self._here.recorder = None
            self._stack.clear()
        return self._finish(recorder, inputs, results, request)

    def _finish(
        self, recorder: Recorder, inputs: Sequence[object], results: Any, request: Request
    ) -> Recording:
        recorder.stand_ins.finish()
        outputs = tuple(results)
        held = {storage_of(t) for t in tensors_of(outputs)}
        constant = _constants(recorder, held)
        first = outputs
        if request.share_outputs:
            owning = request.owning or [Ownership(i, i, True) for i in range(len(outputs))]
            first = _kept(outputs, owning, recorder)
            for key in held & recorder.blocks.keys():
                recorder.blocks[key].last = len(recorder.steps)  # read by the clones after the last task
            held = set()
        keep_what_is_read(recorder.steps, recorder.blocks, held)
        movable = {key: block for key, block in recorder.blocks.items() if key not in held | constant}
        if self._order == "shuffled":
            movable = {}
        layout = plan(movable.items(), len(recorder.steps))
        own = sum(recorder.blocks[key].nbytes for key in recorder.blocks if key not in movable)
        held_chunks: list[Chunk] = []  # by the recording, through `release`
        if layout.nbytes:
            held_chunks.append(self._arena.reserve(layout.nbytes))
            _move(recorder, outputs, movable, layout.offsets, held_chunks[0].storage)
        for key in recorder.blocks.keys() - movable.keys():
            recorder.blocks[key].fill()
        steps = [
            s
            for s in recorder.steps
            if not (isinstance(s, Task) and s.writes and constant.issuperset(s.writes))
        ]
        tasks = [s for s in steps if isinstance(s, Task)]
        for task in tasks:
            if may_call_back(task.overload):
                task.call = self._turns.opened(task.call)
        copies = sorted({str(task.overload) for task in tasks if task.allocates})
        notes = (f"no kernel that writes into given memory: {', '.join(copies)}",) if copies else ()
        replay = straight_replay(tasks) if self._order == "program" else self._shuffled(steps)
        used = [(task.args, dict(task.kwargs), task.into) for task in tasks]
        holders = Holders(tensors_of((outputs, used, inputs)))
        claims = holders.claims()
        return Recording(
            replay, outputs, own, len(tasks), True, held_chunks.clear, notes, _patcher(recorder.patches, replay), first,
            claims={key: claims[key] for key in recorder.blocks if key in held},
            holders=holders,
        )  # fmt: skip

    def _shuffled(self, steps: Sequence[Any]) -> Callable[[], None]:
        def replay() -> None:
            straight_replay(legal_order(steps, next(self._seeds)))()

        return replay

    def unowned(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        make: Any = torch._C._construct_storage_from_data_pointer
        return same_place(tensor, make(storage.data_ptr(), tensor.device, storage.nbytes()))

    def trim(self) -> None:
        """Memory goes with the last recording that uses it."""

    def pool_nbytes(self) -> int:
        return self._arena.nbytes

    def limits(self) -> Limits:
        return Limits()

    def synchronize(self) -> None:
        """Nothing runs behind the caller's back on the host."""

    def stream(self, tag: str, priority: int) -> int:
        if priority:
            raise Unsupported(
                f"stream {tag!r} asks for priority {priority}, and the host runtime has no priorities",
                advice="remove stream_priority (the default is 0) where CPU tensors are computed on",
                option="stream_priority",
                runtime=self.name,
            )
        return self._streams.setdefault(tag, len(self._streams) + 1)

    def enter_stream(self, stream: int | None) -> None:
        if self._here.recorder is not None:
            self._stack.append(self._here.recorder.stream)
            self._here.recorder.stream = stream or 0

    def exit_stream(self) -> None:
        if self._here.recorder is not None:
            self._here.recorder.stream = self._stack.pop()

    def _absent(self, *_: object, **__: object) -> NoReturn:
        raise Unsupported(
            "the host runtime has neither cores to limit nor levels of determinism",
            advice="leave out limit_core_num and deterministic where CPU tensors are computed on",
            runtime=self.name,
        )

    limit_cores = restore_cores = enter_determinism = exit_determinism = _absent

    def updatable(self, call: UpdatableCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._here.recorder is None:
            return call.overload(*args, **kwargs)
        return self._here.recorder.updatable(call, args, kwargs)

    def higher_order(self, node: Node) -> Callable[..., Any] | None:
        hop = node.target
        assert isinstance(hop, HigherOrderOperator)
        if (found := decision(node, self.device.type)) is not None:
            raise found.error(self.name)
        place, unused = where(node), unused_results(node)

        def run(*args: Any, **kwargs: Any) -> Any:
            if self._here.recorder is None:
                return hop(*args, **kwargs)
            return self._here.recorder.at(place, unused, hop, *args, **kwargs)

        return run

    def generated(self, code: Callable[[list[Any]], Sequence[Any]], args: list[Any]) -> Sequence[Any]:
        """Calls code that Inductor generated; a recording takes its kernels one by one."""
        recorder = self._here.recorder
        return code(args) if recorder is None else record_generated(recorder, code, args)

    def new_event(self) -> int:
        return next(self._events)

    def record_event(self, event: int) -> None:
        if self._here.recorder is not None:
            self._here.recorder.record(event)

    def wait_event(self, event: int) -> None:
        if self._here.recorder is not None:
            self._here.recorder.wait(event)

    def use_on_stream(self, tensor: Tensor, stream: int | None) -> None:
        if self._here.recorder is not None:
            self._here.recorder.use_on(tensor, stream or 0)

    def address_tests(self) -> _addresses.AddressTests:
        others = _addresses.of_extension(torch._C) or _addresses.mapped
        return _addresses.compiled_followed() or _addresses.followed(others)

    def ready(self) -> None:
        return None

    def turn(self) -> list[bool]:
        return self._turns.taken

    def copies(self) -> None:
        return None

    def copies_back(self) -> None:
        return None

    def buffer_like(self, tensor: Tensor) -> None:
        return None

    def is_recording(self) -> bool:
        return self._turns.taken[0]


class _OpenRecorder(Recorder):
    """Lets other threads have the lock while a kernel runs that may wait for them."""

    def __init__(self, inputs: Sequence[object], turns: Turns) -> None:
        super().__init__(inputs)
        self._turns = turns

    def __torch_dispatch__(
        self,
        func: OpOverload | HigherOrderOperator,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if not may_call_back(func):
            return super().__torch_dispatch__(func, types, args, kwargs)
        with self._turns.open():
            return super().__torch_dispatch__(func, types, args, kwargs)


def _patcher(
    patches: Sequence[Patch], replay: Callable[[], None]
) -> Callable[[Sequence[Mapping[str, Any]]], None] | None:
    """A replay with new host parameters."""
    if not patches:
        return None

    def replay_with(values: Sequence[Mapping[str, Any]]) -> None:
        for patch, value in zip(patches, values, strict=True):
            patch.values = value
        replay()

    return replay_with


def _kept(outputs: tuple[Any, ...], owning: Sequence[Ownership], recorder: Recorder) -> tuple[Any, ...]:
    """The outputs of the recording run as the caller may keep them once their blocks are shared memory."""
    own = [i for i, v in enumerate(outputs) if isinstance(v, Tensor) and storage_of(v) in recorder.blocks]
    kept = list(outputs)
    for index, copy in zip(own, cloner([outputs[i] for i in own], [owning[i] for i in own])(), strict=True):
        kept[index] = copy
    return tuple(kept)


def _constants(recorder: Recorder, held: set[int]) -> set[int]:
    """Blocks that hold the same values in every run: written once, from nothing but such blocks."""
    constant: set[int] = set()
    for step in recorder.steps:
        if not isinstance(step, Task) or not step.writes or not gives_the_same(step):
            continue
        sources = set(step.reads) - set(step.writes)
        once = all(_written_once(recorder.blocks.get(key)) and key not in held for key in step.writes)
        if once and sources <= constant:
            constant.update(step.writes)
    return constant


def _written_once(block: Block | None) -> bool:
    return block is not None and len(block.writers) == 1


def _move(
    recorder: Recorder,
    outputs: tuple[Any, ...],
    movable: dict[int, Block],
    offsets: dict[int, int],
    chunk: torch.UntypedStorage,
) -> None:
    """Points every tensor of the movable blocks at its place in the chunk.

    A place is a storage that begins and ends where the block's own did: what is addressed from the start of a
    storage (`as_strided`) is found again, and two blocks share no storage.
    """
    places = {
        key: place_in(chunk, offsets[key], block.nbytes) for key, block in movable.items() if block.nbytes
    }
    for tensor in (*recorder.stand_ins.all, *tensors_of(outputs)):
        place = places.get(storage_of(tensor))
        if place is not None:
            tensor.set_(place, tensor.storage_offset(), tensor.shape, tensor.stride())
