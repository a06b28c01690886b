"""Host parameters of captured operators on Ascend: task groups, one update stream, one event each.

    capture    wait(event); reset(event); begin group; op.out(...); end group
    replay     replay(); then on the update stream: begin update; op.out(new values); end update; record(event)

The graph stops in front of each updatable operator until its event is recorded, so an operator never runs
with the values of another call.  The update stream first waits for the end of the previous round: a host
that runs ahead cannot patch a task that has not run yet.  That this suffices is checked for what each capture
did (`_update_order`).  Under ASCEND_LAUNCH_BLOCKING=1 a replay ends before its call returns: it is
patched before it then.  All records belong to one capture; another shape key has its own.

A patch prepares the operator again, on the update stream: it does so with the level of determinism and the limits of
cores with which the operator was captured.  When one is refused, or Python is interrupted, the replay that waits is let
run with the values of before, and the call raises: nothing on the device waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_iter, tree_map_only

from air_aclgraph._key import exact
from air_aclgraph._runtime import UpdatableCall
from air_aclgraph.device import _npu
from air_aclgraph.device._update_order import Action, round_of, violations
from air_aclgraph.device._workspaces import NAME, Workspace, Workspaces, largest
from air_aclgraph.errors import UpdateRefused
from air_graph import effects_of

Told = tuple[Mapping[str, Any], Any]
"""The values of one operator, and what tells them from others, as `exact` gives it."""


@dataclass
class _Group:
    """One captured operator: its handle, its event, and the call that patches it."""

    call: UpdatableCall
    launch: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    handle: Any
    event: Any
    level: int | None = None
    cores: tuple[int, int] | None = None
    workspace: Workspace | None = None
    last: Any = None  # the values of the last patch, as `exact` gives them
    of_tensors: bool | None = None  # whether its values are tensors, which the program may write

    def is_behind(self, told: Any) -> bool:
        """Whether its task has other values than these, as `exact` gives them."""
        return self.last is None or bool(told != self.last)

    def has(self, value: Mapping[str, Any], told: Any) -> None:
        """Notes which values its task has now."""
        if self.of_tensors is None:
            self.of_tensors = any(isinstance(each, Tensor) for each in tree_iter(value))
        self.last = None if self.of_tensors else told

    def take_memory(self, value: Mapping[str, Any], told: Any) -> None:
        """Takes what a patch will need, while no replay waits for it: a full device waits for its replays first."""
        if self.workspace is not None and self.is_behind(told):
            self.workspace.serve(value, *self.call.with_values(self.args, self.kwargs, value))


class UpdateStream:
    """The one stream that patches host parameters, before everything else on the device."""

    def __init__(self, module: Any, device: torch.device) -> None:
        self._module, self._device = module, device
        self.stream = self.renewed()

    def renewed(self) -> Any:
        """Another one: on a stream whose patch was refused the driver may wait for the end of that patch."""
        self.stream = self._module.Stream(device=self._device, priority=-1)
        return self.stream


class TaskGroups:
    """The updatable operators of one capture."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self.groups: list[_Group] = []
        self._captured: list[Action] = []
        self._workspaces = Workspaces()

    def capture(
        self,
        call: UpdatableCall,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        level: int | None = None,
        cores: tuple[int, int] | None = None,
    ) -> Any:
        """Captures the operator as a group of tasks that can be patched, again with that level and those cores."""
        launch, named, result = _into_own_memory(call, args, kwargs)
        stream = self._module.current_stream()
        workspace = self._workspaces.of(_name(stream), call, args, named)
        if workspace is not None:
            named = {**named, NAME: workspace.memory}
        event = self._module.ExternalEvent()
        self._did(stream, "wait", event)
        event.wait(stream)
        self._did(stream, "reset", event)
        event.reset(stream)
        self._module.graph_task_group_begin(stream)
        try:
            with _outside_dispatch_modes():
                returned = launch(*args, **named)
            self._captured.append(Action(_name(self._module.current_stream()), "run", len(self.groups)))
        finally:
            handle = self._module.graph_task_group_end(stream)
        self.groups.append(_Group(call, launch, args, named, handle, event, level, cores, workspace))
        return returned if result is None else result

    def held(self) -> list[Any]:
        """The arguments that patches need again: tensors that stay as long as the capture."""
        return [(group.args, dict(group.kwargs)) for group in self.groups]

    def _did(self, stream: Any, kind: Literal["wait", "reset"], event: Any) -> None:
        self._captured.append(Action(_name(stream), kind, id(event)))

    def check_order(self) -> None:
        """Raises where a replay of this capture could run an operator with the values of another call."""
        events = [id(group.event) for group in self.groups]
        found = violations(self._captured, round_of(events), events)
        if found:
            raise UpdateRefused(
                "the captured graph cannot be patched safely: " + "; ".join(found),
                advice="keep each updatable operator on the stream that is current when it is called, or take it out "
                "of the table (unregister_updatable) so that its values become part of the shape key",
                operator=", ".join(sorted({str(group.call.overload) for group in self.groups})),
            )

    def replayer(
        self, replay: Callable[[], None], updates: UpdateStream
    ) -> Callable[[Sequence[Mapping[str, Any]]], None]:
        """A replay that hands new values to every group, in the order of capture."""
        module, groups = self._module, self.groups
        round_over = module.Event()
        started = [False]
        replay_waits = _npu.launches_block()
        working = self._working()

        def patch(values: Sequence[Told], stream: Any) -> None:
            with module.stream(stream), _outside_dispatch_modes():
                if started[0]:
                    stream.wait_event(round_over)
                for group, (value, told) in zip(groups, values, strict=True):
                    if group.is_behind(told):
                        _patch(module, group, value, stream)
                        group.has(value, told)
                    group.event.record(stream)

        def replay_with(given: Sequence[Mapping[str, Any]]) -> None:
            stream, begun = updates.stream, replay_waits
            values = _told(given)
            _take_memory(working, values)
            try:
                if replay_waits:
                    patch(values, stream)
                replay()
                begun = True
                current = module.current_stream()
                if not replay_waits:
                    patch(values, stream)
                round_over.record(current)
                started[0] = True
            except BaseException as error:
                if begun or not isinstance(error, Exception):  # an interrupt comes after the launch
                    self._let_run(updates.renewed(), round_over if started[0] else None)
                    started[0] = False
                raise

        return replay_with

    def _working(self) -> list[tuple[int, _Group]]:
        """The groups that work in memory which grows with their values."""
        return [(index, group) for index, group in enumerate(self.groups) if group.workspace is not None]

    def _let_run(self, stream: Any, round_over: Any) -> None:
        """Ends a replay some of whose groups may wait, and leaves every event as it was before it."""
        module, events = self._module, [group.event for group in self.groups]
        with suppress(RuntimeError), module.stream(stream):  # of a device that does nothing more
            if round_over is not None:
                stream.wait_event(round_over)
            for event in events:
                event.record(stream)
            module.synchronize()
            for event in events:  # one that was recorded twice is still set
                event.record(stream)
                event.wait(stream)
                event.reset(stream)
            module.synchronize()


def _outside_dispatch_modes() -> AbstractContextManager[Any]:
    """Outside the mode with which AOTAutograd looks at the first call of a compiled function.

    It takes an `.out` operator that torch_npu does not mark as writing for one of the program that returns its
    argument: a warning, and where `CI` is set an error, about a call that the program does not make.
    """
    return _disable_current_modes() if torch._C._len_torch_dispatch_stack() else nullcontext()


def _take_memory(working: Sequence[tuple[int, _Group]], values: Sequence[Told]) -> None:
    for index, group in working:
        group.take_memory(*values[index])


def _told(given: Sequence[Mapping[str, Any]]) -> list[Told]:
    """Values and what tells them from others: once for each mapping, which many layers may share."""
    distinct = {id(value): value for value in given}
    told = {name: (value, exact(value)) for name, value in distinct.items()}
    return [told[id(value)] for value in given]


def _patch(module: Any, group: _Group, value: Mapping[str, Any], stream: Any) -> None:
    args, kwargs = group.call.with_values(group.args, group.kwargs, value)
    before = None if group.level is None else _npu.set_determinism(group.level)
    limits = None if group.cores is None else _limited(module, stream, group.cores)
    if group.workspace is not None:
        kwargs[NAME] = group.workspace.memory
    group.last = None
    try:
        module.graph_task_update_begin(stream, group.handle)
        try:
            group.launch(*args, **kwargs)
        except BaseException:
            with suppress(RuntimeError):  # it would only say that nothing was patched
                module.graph_task_update_end(stream)
            raise
        module.graph_task_update_end(stream)
    finally:
        if limits is not None:
            module.set_stream_limit(stream, *limits)
        if before is not None:
            _npu.set_determinism(before)


def _limited(module: Any, stream: Any, cores: tuple[int, int]) -> tuple[int, int]:
    """Sets the limits of cores of a stream; gives the ones from before."""
    before = module.get_stream_limit(stream)
    module.set_stream_limit(stream, *cores)
    return before["cube_core_num"], before["vector_core_num"]


def _name(stream: Any) -> tuple[Any, ...]:
    """What tells a stream from others, and from the two that are outside every capture."""
    return ("captured", getattr(stream, "stream_id", id(stream)))


def _into_own_memory(
    call: UpdatableCall, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any], dict[str, Any], Any]:
    """The form of the operator that writes into given memory: a patch must write where the capture did."""
    if effects_of(call.overload).writes:
        return call.overload, kwargs, None
    out = getattr(call.overload.overloadpacket, "out", None)
    if out is None:
        raise UpdateRefused(
            f"{call.overload} has no .out overload: a patched call could not write where the captured one did",
            advice="register an operator that writes into an argument, or take it out of the table of updatables",
            operator=str(call.overload),
        )
    results = _empty_results(call.overload, args, kwargs)
    named = dict(kwargs)
    names = {a.name for a in effects_of(out).writes}  # torch_npu does not mark lists as written
    written = [a for a in out._schema.arguments if a.name in names]
    if len(written) == 1 and isinstance(written[0].type, torch.ListType):
        named[written[0].name] = list(results)
    else:
        named.update({a.name: t for a, t in zip(written, results, strict=True)})
    workspace = largest(call, args, kwargs)
    if workspace is not None:
        named[NAME] = workspace
    return out, named, results[0] if len(results) == 1 else tuple(results)


def _empty_results(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    with FakeTensorMode(allow_non_fake_inputs=False) as mode:
        fake_args, fake_kwargs = tree_map_only(Tensor, mode.from_tensor, (args, kwargs))
        fakes = overload(*fake_args, **fake_kwargs)
    fakes = [fakes] if isinstance(fakes, Tensor) else list(fakes)
    return [torch.empty_strided(f.shape, f.stride(), dtype=f.dtype, device=f.device) for f in fakes]
