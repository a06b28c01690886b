"""Writes down the tasks of one run, the way a device does during stream capture.

The run happens for real, below every Python layer: each operator that reaches a kernel is seen once, with
its concrete tensors.  A view needs no task (the storages never move); an in-place operator is repeated as it
is; a functional one is repeated into the memory its first result took.  What a device refuses during a
capture is refused here: an operator whose result the host has to look at, or whose output shape depends on
data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map_only

from air_aclgraph._memory import tensors_of
from air_aclgraph._runtime import UpdatableCall
from air_aclgraph._uncapturable import why_illegal
from air_aclgraph.errors import IllegalDuringCapture
from air_aclgraph.host._higher_order import ResultTargets, own_results, run_below_autograd
from air_aclgraph.host._rewrites import REWRITES
from air_aclgraph.host._stand_ins import Block, StandIns
from air_graph import (
    SourceLine,
    call_draws,
    effects_of,
    is_functional_collective,
    out_form_of,
    same_place,
    storage_of,
    written_values,
)


@dataclass
class Task:
    """One kernel call to repeat; `into` takes the results at `positions` of a call that makes new tensors."""

    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    stream: int
    overload: OpOverload | HigherOrderOperator | str
    """The operator, or the name of a generated kernel."""
    into: tuple[Tensor, ...] = ()
    positions: tuple[int, ...] = ()
    allocates: bool = False
    patched: bool = False
    landing: ResultTargets | None = None
    """Where the results of a higher-order operator belong."""


@dataclass(frozen=True)
class Record:
    """An event recorded on a stream."""

    event: int
    stream: int


@dataclass(frozen=True)
class Wait:
    """A stream that waits for an event."""

    event: int
    stream: int


@dataclass
class Patch:
    """The host parameters that the next replay gives to one operator."""

    call: UpdatableCall
    values: Mapping[str, Any] = field(default_factory=dict)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with the current values in place of the recorded ones."""

        def patched(*args: Any, **kwargs: Any) -> Any:
            positional, named = self.call.with_values(args, kwargs, self.values)
            return function(*positional, **named)

        return patched


class Recorder(TorchDispatchMode):
    """Active during one run; afterwards holds its tasks, blocks and tensors."""

    supports_higher_order_operators = True

    def __init__(self, inputs: Sequence[object]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it unannotated
        self.steps: list[Task | Record | Wait] = []
        self.blocks: dict[int, Block] = {}
        self.stand_ins = StandIns(self.blocks)
        self.foreign: set[int] = {storage_of(t) for t in tensors_of(inputs)}
        self.stream = 0
        self.patches: list[Patch] = []
        self._patch: Patch | None = None
        self._place: tuple[SourceLine | None, frozenset[int]] = (None, frozenset())

    def __torch_dispatch__(
        self,
        func: OpOverload | HigherOrderOperator,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        self.stand_ins.settle()
        if isinstance(func, HigherOrderOperator):
            return self._higher_order(func, args, named)
        if (reason := why_illegal(func, args, named)) is not None:
            raise IllegalDuringCapture.of(func, reason)
        for tensor in tensors_of((args, named)):
            self._meet(tensor)
        if torch.Tag.inplace_view in func.tags:
            self._turned(args[0])
        written = tensors_of(written_values(func, args, named)) if func._schema.is_mutable else ()
        outs = [(t, t.shape) for t in written]
        for tensor, _ in outs:
            if not tensor.numel() and storage_of(tensor) in self.blocks:
                self.stand_ins.forget(tensor)  # it may grow to the size of a result
        result = func(*args, **named)
        if torch.Tag.inplace_view not in func.tags:
            self._refuse_resized(func, outs)
        self._note(func, args, named, result)
        return result

    def _turned(self, tensor: Tensor) -> None:
        """The tensor is about to change its shape: tasks that have it go on with one of the shape it has now."""
        if storage_of(tensor) in self.blocks:
            self.stand_ins.forget(tensor)
            return
        before = same_place(tensor, tensor.untyped_storage())  # a view of an input is held as it is
        self.stand_ins.adopt(before)

        def instead(held: Tensor) -> Tensor:
            return before if held is tensor else held

        for step in self.steps:
            if isinstance(step, Task):
                step.args, step.kwargs = tree_map_only(Tensor, instead, (step.args, dict(step.kwargs)))

    def _refuse_resized(self, func: OpOverload, outs: Sequence[tuple[Tensor, torch.Size]]) -> None:
        """An empty tensor of the graph may be made as large as the result that is written to it, no other one."""
        for tensor, before in outs:
            if tensor.shape != before and (before.numel() or storage_of(tensor) not in self.blocks):
                raise IllegalDuringCapture.of(
                    func,
                    f"it gives a tensor of size {tuple(before)} the size {tuple(tensor.shape)} of its result",
                    advice="give it an out= tensor of the size of the result, or none",
                )

    def updatable(self, call: UpdatableCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs an operator whose host parameters later replays change."""
        self._patch = Patch(call)
        self.patches.append(self._patch)
        try:
            return call.overload(*args, **kwargs)
        finally:
            self._patch = None

    def at(
        self,
        place: SourceLine | None,
        unused: frozenset[int],
        hop: HigherOrderOperator,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Runs a higher-order operator of the user's line `place`; nobody looks at its `unused` results."""
        self._place = (place, unused)
        try:
            return hop(*args, **kwargs)
        finally:
            self._place = (None, frozenset())

    def kernel(self, name: str, call: Callable[..., Any], *args: Any) -> None:
        """Runs a generated kernel, which may read and write every tensor that it is given, as one task."""
        with _disable_current_modes():  # nothing here is an operator to record
            self.stand_ins.settle()
            for tensor in tensors_of(args):
                self._meet(tensor)
            call(*args)
            args = self.stand_ins.of(args)
            touched = tuple(dict.fromkeys(storage_of(t) for t in tensors_of(args)))
            self._append(Task(call, args, {}, touched, touched, self.stream, name))

    def _higher_order(
        self, hop: HigherOrderOperator, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """One task for everything inside, which may read and write any tensor it is given."""
        operands = list(tensors_of((args, dict(kwargs))))
        for tensor in operands:
            self._meet(tensor)
        known = {storage_of(t) for t in operands}
        result = own_results(args, known, run_below_autograd(hop, args, kwargs))
        into = tuple(t for t in tensors_of(result) if storage_of(t) not in known)
        for tensor in into:
            self.blocks[storage_of(tensor)] = Block(
                tensor.untyped_storage(), self.stream, len(self.steps), streams={self.stream}
            )
        for tensor in (*operands, *into):
            self.stand_ins.adopt(tensor)
        args, kwargs, results, into = self.stand_ins.of((args, dict(kwargs), result, into))
        reads = tuple(dict.fromkeys(storage_of(t) for t in operands))
        writes = (*reads, *dict.fromkeys(storage_of(t) for t in into))
        task = Task(
            lambda *a, **k: run_below_autograd(hop, a, k), args, kwargs, reads, writes, self.stream, hop,
            into=into, allocates=True, landing=ResultTargets(str(hop), self._place[0], results, self._place[1]),
        )  # fmt: skip
        self._append(task)
        return result

    def record(self, event: int) -> None:
        """Records `event` on the current stream."""
        self.steps.append(Record(event, self.stream))

    def wait(self, event: int) -> None:
        """Makes the current stream wait for `event`."""
        self.steps.append(Wait(event, self.stream))

    def use_on(self, tensor: Tensor, stream: int) -> None:
        """Keeps the block of `tensor` until the work now queued on `stream` is done."""
        block = self.blocks.get(storage_of(tensor))
        if block is not None:
            block.streams.add(stream)

    def _meet(self, tensor: Tensor) -> None:
        """A tensor that no recorded operator made: a constant of the graph, never ours to move."""
        key = storage_of(tensor)
        if key not in self.blocks and key not in self.foreign:
            self.foreign.add(key)
            self.stand_ins.adopt(tensor)

    def _note(self, func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        outs = list(tensors_of(result))
        _refuse_layouts(func, outs)
        known = {storage_of(t) for t in tensors_of((args, kwargs))}
        positions = tuple(i for i, t in enumerate(outs) if storage_of(t) not in known)
        fresh = tuple(outs[i] for i in positions)
        index = len(self.steps)
        for tensor in fresh:
            self.blocks.setdefault(
                storage_of(tensor), Block(tensor.untyped_storage(), self.stream, index, streams={self.stream})
            )
        for tensor in outs:
            self.stand_ins.watch(tensor)
        if _is_silent(func, fresh, outs):
            return
        args, kwargs, fresh = self.stand_ins.of((args, dict(kwargs), fresh))
        task = _task(func, args, kwargs, fresh, len(outs), self.stream)
        task.positions = positions if task.into else ()
        if self._patch is not None and func is self._patch.call.overload:
            task.call = self._patch.around(task.call)
            task.patched = True
        self._append(task)

    def _append(self, task: Task) -> None:
        index = len(self.steps)
        self.steps.append(task)
        for tensor in tensors_of((task.args, dict(task.kwargs), task.into)):
            self.stand_ins.adopt(tensor)
        same = gives_the_same(task) and all(
            key in self.blocks and self.blocks[key].kept for key in {*task.reads}.difference(task.writes)
        )
        for key in {*task.reads, *task.writes}:
            block = self.blocks.get(key)
            if block is not None:
                block.last = index
                block.streams.add(task.stream)
        for key in task.writes:
            if key in self.blocks:
                self.blocks[key].writers.append(index)
                self.blocks[key].kept |= same


def gives_the_same(task: Task) -> bool:
    """Whether a call gives the same values whenever it is given the same."""
    if task.patched or not isinstance(task.overload, OpOverload):
        return False
    return task.overload.namespace == "aten" and not call_draws(task.overload, task.args, task.kwargs)


def _refuse_layouts(func: OpOverload, outs: Sequence[Tensor]) -> None:
    for tensor in outs:
        if tensor.layout is not torch.strided or tensor.is_quantized:
            kind = "is quantised" if tensor.is_quantized else f"has layout {tensor.layout}"
            raise IllegalDuringCapture.of(
                func,
                f"its result {kind}, which is no memory of one size that could be written again",
                advice="keep such tensors outside the compiled function, or run this model with run_eagerly",
            )


def _is_silent(func: OpOverload, fresh: Sequence[Tensor], outs: Sequence[Tensor]) -> bool:
    """Whether a replay has nothing to do for this call: a view, an uninitialised block, a question."""
    schema = func._schema
    if torch.Tag.inplace_view in func.tags:
        return True
    if schema.is_mutable or effects_of(func).hides_writes:
        return False
    if schema.name.startswith("aten::empty") or schema.name in ("aten::new_empty", "aten::new_empty_strided"):
        return True
    if fresh:
        return False
    if outs:
        return func.is_view or func.namespace in ("aten", "prim") or is_functional_collective(func)
    if not schema.returns:  # it checks or says something
        return func.namespace == "profiler"
    return func.namespace in ("aten", "prim", "profiler")


def _task(
    func: OpOverload,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    fresh: tuple[Tensor, ...],
    results: int,
    stream: int,
) -> Task:
    reads = tuple(dict.fromkeys(storage_of(t) for t in tensors_of((args, kwargs))))
    written = [*fresh, *tensors_of(written_values(func, args, kwargs))]
    writes = tuple(dict.fromkeys(storage_of(t) for t in written))

    def made(call: OpOverload, call_args: tuple[Any, ...], call_kwargs: Mapping[str, Any]) -> Task:
        return Task(_callable(call), call_args, call_kwargs, reads, writes, stream, call)

    if not fresh:
        return made(func, args, kwargs)
    if len(fresh) == results and not func._schema.is_mutable:
        variant = out_form_of(func)
        if variant is not None:
            named = {**kwargs, **dict(zip(variant.names, fresh, strict=True))}
            return made(variant.out, args, named)
        if func in REWRITES:
            rewritten = REWRITES[func](args, kwargs, fresh[0])
            if rewritten is not None:
                return made(rewritten.overload, rewritten.args, rewritten.kwargs)
    return Task(_callable(func), args, kwargs, reads, writes, stream, func, into=fresh, allocates=True)


def _callable(func: OpOverload) -> Callable[..., Any]:
    """The operator past its Python layer; a replay does not repeat `wait_tensor`, so a collective waits itself."""
    return _waited(func) if is_functional_collective(func) else func._op


def _waited(func: OpOverload) -> Callable[..., Any]:
    """A functional collective, in place or not, whose result is complete when the call returns."""
    wait = torch.ops._c10d_functional.wait_tensor.default

    def run(*args: Any, **kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        return [wait(t) for t in result] if isinstance(result, (list, tuple)) else wait(result)

    return run
