"""Patches of host parameters are ordered with the operators that read them, in every order that streams allow."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Hashable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as some

from air_aclgraph._runtime import UpdatableCall
from air_aclgraph.device import _npu
from air_aclgraph.device._update_order import CALLER, OVER, UPDATE, Action, round_of, violations
from air_aclgraph.device._updates import TaskGroups, UpdateStream
from air_aclgraph.errors import UpdateRefused


def graph_of(streams: Sequence[Hashable]) -> list[Action]:
    """A capture of one operator per entry, each on that stream behind its own wait."""
    return [
        action
        for number, stream in enumerate(streams)
        for action in (
            Action(stream, "wait", f"e{number}"),
            Action(stream, "reset", f"e{number}"),
            Action(stream, "run", number),
        )
    ]


def events_of(count: int) -> list[Hashable]:
    return [f"e{number}" for number in range(count)]


def test_operators_behind_their_own_waits_are_in_order_on_any_streams() -> None:
    for streams in (["s"], ["s"] * 5, ["s", "t", "s", "u"]):
        events = events_of(len(streams))
        assert violations(graph_of(streams), round_of(events), events) == []


def changed(actions: Sequence[Action], **changes: Any) -> list[Action]:
    """The actions without the one that is `kind`, or with it on another stream."""
    kind, stream = changes["kind"], changes.get("stream")
    kept = []
    for action in actions:
        if action.kind != kind:
            kept.append(action)
        elif stream is not None:
            kept.append(Action(stream, action.kind, action.subject))
    return kept


RUNS_EARLY = "operator 0 may run before its values are patched"
PATCHED_EARLY = "operator 0 may be patched for the next call before it has run"
NOT_RESET = "the event of operator 0 may be recorded before it is reset"
GRAPH, ROUND = graph_of(["s"]), list(round_of(["e0"]))
BACK = Action("s", "record", "done")


@pytest.mark.parametrize(
    ("captured", "played", "expected"),
    [
        (changed(GRAPH, kind="wait"), ROUND, {RUNS_EARLY}),
        (changed(GRAPH, kind="run", stream="t"), ROUND, {RUNS_EARLY}),
        (changed(GRAPH, kind="reset"), ROUND, {NOT_RESET}),
        (GRAPH, [a for a in ROUND if a.subject != OVER or a.kind != "wait"], {PATCHED_EARLY, NOT_RESET}),
        (GRAPH, [ROUND[0], ROUND[1], ROUND[3], ROUND[2], ROUND[4]], {RUNS_EARLY}),
        (GRAPH, changed(ROUND, kind="patch", stream=CALLER), {RUNS_EARLY}),
        ([*GRAPH, BACK], [*ROUND[:2], Action(UPDATE, "wait", "done"), *ROUND[2:]],
         {"the streams wait for each other: a replay would hang"}),
        ([*GRAPH, *GRAPH], ROUND, {"an event or an operator is used twice in one replay"}),
    ],
    ids=["no wait", "another stream", "no reset", "rounds unordered", "released before the patch",
         "patched by the caller", "a circle", "one event for two"],
)  # fmt: skip
def test_what_is_missing_is_named(captured: list[Action], played: list[Action], expected: set[str]) -> None:
    assert set(violations(captured, played, ["e0"])) >= expected


class Device:
    """Streams that go on one action at a time, in any order their events allow; the host is far ahead."""

    def __init__(self, captured: Sequence[Action], played: Sequence[Action], rounds: int) -> None:
        self.graph = captured
        self.queues: dict[Hashable, deque[tuple[int, Action]]] = {CALLER: deque(), UPDATE: deque()}
        self.running: dict[Hashable, deque[tuple[int, Action]]] = {}
        self.flags: set[Hashable] = set()
        self.over = 0
        self.values: dict[Hashable, int] = {}
        self.seen: list[tuple[int, int | None]] = []
        for turn in range(rounds):
            for action in played:
                self.queues[action.stream].append((turn, action))

    def may(self, turn: int, action: Action) -> bool:
        if action.kind == "wait":
            return self.over >= turn if action.subject == OVER else action.subject in self.flags
        if action.stream == CALLER and (action.kind == "launch" or action.subject == OVER):
            return not any(self.running.values())
        return True

    def do(self, turn: int, action: Action) -> None:
        if action.kind == "launch":
            for inner in self.graph:
                self.running.setdefault(inner.stream, deque()).append((turn, inner))
        elif action.kind == "record":
            if action.subject == OVER:
                self.over = turn + 1
            self.flags.add(action.subject)
        elif action.kind == "reset":
            self.flags.discard(action.subject)
        elif action.kind == "patch":
            self.values[action.subject] = turn
        elif action.kind == "run":
            self.seen.append((turn, self.values.get(action.subject)))

    def finish(self, chance: random.Random) -> bool:
        """Whether everything came to an end."""
        while True:
            waiting = [queue for queue in (*self.queues.values(), *self.running.values()) if queue]
            ready = [queue for queue in waiting if self.may(*queue[0])]
            if not ready:
                return not waiting
            self.do(*chance.choice(ready).popleft())


def is_right(captured: Sequence[Action], played: Sequence[Action], seed: int, rounds: int = 4) -> bool:
    """Whether a device ends, and every operator ran with the values of its own round."""
    device = Device(captured, played, rounds)
    return device.finish(random.Random(seed)) and all(turn == value for turn, value in device.seen)


def test_a_device_far_behind_its_host_runs_every_operator_with_its_own_values() -> None:
    events = events_of(4)
    assert all(is_right(graph_of(["s", "t", "s", "u"]), round_of(events), seed) for seed in range(100))


def test_a_device_shows_what_is_found() -> None:
    for captured, played in (
        (changed(GRAPH, kind="wait"), ROUND),
        (changed(GRAPH, kind="reset"), ROUND),
        (GRAPH, [a for a in ROUND if a.subject != OVER or a.kind != "wait"]),
    ):
        assert not all(is_right(captured, played, seed) for seed in range(100))


@examples(max_examples=200, deadline=None)
@given(data=some.data(), seed=some.integers(0, 1 << 16))
def test_no_order_of_a_device_breaks_what_is_found_to_be_in_order(data: some.DataObject, seed: int) -> None:
    """Random captures and rounds: actions left out, swapped, or moved to another stream."""
    streams = data.draw(some.lists(some.sampled_from("stu"), min_size=1, max_size=3))
    events = events_of(len(streams))
    captured, played = graph_of(streams), list(round_of(events))
    for actions, others in ((captured, "stu"), (played, (CALLER, UPDATE))):
        for _ in range(data.draw(some.integers(0, 2))):
            at = data.draw(some.integers(0, len(actions) - 1))
            what = data.draw(some.sampled_from(["swap", "drop", "move"]))
            if actions[at].kind == "launch" or actions[at] == played[-1]:
                continue
            if what == "drop":
                del actions[at]
            elif what == "move":
                actions[at] = Action(
                    data.draw(some.sampled_from(list(others))), actions[at].kind, actions[at].subject
                )
            elif at + 1 < len(actions) and actions[at + 1].kind != "launch":
                actions[at], actions[at + 1] = actions[at + 1], actions[at]
    if not violations(captured, played, events):
        assert all(is_right(captured, played, seed + number) for number in range(10))


# The groups of a capture, with a module that writes down what it is asked for.


LIBRARY = torch.library.Library("air_aclgraph_order", "DEF")
LIBRARY.define("sums(Tensor x, int length) -> Tensor")
LIBRARY.define("sums.out(Tensor x, int length, *, Tensor(a!) out) -> Tensor(a!)")
LIBRARY.impl("sums", lambda x, length: x[:length].sum(), "CPU")
LIBRARY.impl("sums.out", lambda x, length, *, out: out.copy_(x[:length].sum()), "CPU")
torch.library.register_fake("air_aclgraph_order::sums", lambda x, length: x.new_empty(()), lib=LIBRARY)
CALL = UpdatableCall(torch.ops.air_aclgraph_order.sums.default, {"length": 1})


class Module:
    """Streams, events, groups and limits as torch_npu has them; what happens is written down by stream."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, str, Any]] = []
        self.limits: dict[Any, tuple[int, int]] = {}
        self._current = [SimpleNamespace(stream_id=1)]

    def current_stream(self) -> Any:
        return self._current[-1]

    def stream(self, stream: Any) -> Any:
        module = self

        class Switch:
            def __enter__(self) -> None:
                module._current.append(stream)

            def __exit__(self, *error: object) -> None:
                module._current.pop()

        return Switch()

    def Stream(self, *, device: torch.device, priority: int) -> Any:
        """The update stream: nothing else makes one."""
        stream = SimpleNamespace(stream_id=9)
        stream.wait_event = lambda event: self.done.append((9, "wait", event))
        return stream

    def synchronize(self) -> None:
        self.done.append((None, "synchronize", None))

    def _event(self) -> Any:
        event = SimpleNamespace()
        for kind in ("wait", "reset", "record"):
            setattr(event, kind, lambda stream, kind=kind: self.done.append((stream.stream_id, kind, event)))
        return event

    ExternalEvent = Event = _event

    def graph_task_group_begin(self, stream: Any) -> None:
        return None

    def graph_task_group_end(self, stream: Any) -> int:
        return sum(kind == "reset" for _, kind, _ in self.done) - 1

    def graph_task_update_begin(self, stream: Any, handle: int) -> None:
        self.done.append((stream.stream_id, "patch", handle))

    def graph_task_update_end(self, stream: Any) -> None:
        return None

    def get_stream_limit(self, stream: Any) -> dict[str, int]:
        cube, vector = self.limits.get(stream.stream_id, (24, 48))
        return {"cube_core_num": cube, "vector_core_num": vector}

    def set_stream_limit(self, stream: Any, cube: int, vector: int) -> None:
        self.limits[stream.stream_id] = (cube, vector)
        self.done.append((stream.stream_id, "limit", (cube, vector)))


def updates_of(module: Module) -> UpdateStream:
    return UpdateStream(module, torch.device("cpu"))


def captured_groups(module: Module, streams: Sequence[int], **options: Any) -> TaskGroups:
    groups = TaskGroups(module)
    for stream in streams:
        with module.stream(SimpleNamespace(stream_id=stream)):
            groups.capture(CALL, (torch.arange(4.0), 2), {}, **options)
    groups.check_order()
    return groups


def test_a_replay_does_what_was_checked() -> None:
    module = Module()
    groups = captured_groups(module, [1, 2, 1])
    events = [group.event for group in groups.groups]
    replay = groups.replayer(lambda: module.done.append((1, "launch", None)), updates_of(module))
    for turn in range(3):
        module.done.clear()
        replay([{"length": turn}] * 3)
        over = module.done[-1][2]
        names = {id(over): OVER, **{id(event): f"e{number}" for number, event in enumerate(events)}}
        done = [
            Action(UPDATE if stream == 9 else CALLER, kind, names.get(id(subject), subject))  # type: ignore[arg-type]  # kinds of actions
            for stream, kind, subject in module.done
        ]
        expected = [a for a in round_of(events_of(3)) if turn or (a.kind, a.subject) != ("wait", OVER)]
        assert done == expected


def test_values_that_stay_are_not_patched_again_but_released() -> None:
    module = Module()
    groups = captured_groups(module, [1, 1])
    replay = groups.replayer(lambda: None, updates_of(module))
    replay([{"length": 1}, {"length": 2}])
    module.done.clear()
    replay([{"length": 1}, {"length": 3}])
    assert [(kind, subject) for _, kind, subject in module.done if kind == "patch"] == [("patch", 1)]
    assert sum(kind == "record" for stream, kind, _ in module.done if stream == 9) == 2


def test_an_operator_that_leaves_its_stream_is_refused() -> None:
    class Wandering(Module):
        def graph_task_group_begin(self, stream: Any) -> None:
            self._current.append(SimpleNamespace(stream_id=5))

    groups = TaskGroups(Wandering())
    groups.capture(CALL, (torch.arange(4.0), 2), {})
    with pytest.raises(UpdateRefused, match="operator 0 may run before its values are patched"):
        groups.check_order()


def test_a_patch_is_made_with_the_cores_of_its_capture() -> None:
    module = Module()
    groups = captured_groups(module, [1], cores=(4, 8))
    replay = groups.replayer(lambda: None, updates_of(module))
    module.done.clear()
    replay([{"length": 3}])
    kinds = [
        (kind, subject) for stream, kind, subject in module.done if stream == 9 and kind in ("limit", "patch")
    ]
    assert kinds == [("limit", (4, 8)), ("patch", 0), ("limit", (24, 48))]

    def fails(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no")

    groups.groups[0].launch = fails
    with pytest.raises(RuntimeError, match="no"):
        replay([{"length": 2}])
    assert module.limits[9] == (24, 48)
    released = [kind for stream, kind, _ in module.done if stream in (9, None)][-7:]
    assert released == ["wait", "record", "synchronize", "record", "wait", "reset", "synchronize"]


def test_a_patch_outside_such_scopes_leaves_cores_and_determinism_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_npu, "set_determinism", lambda level: pytest.fail("asked"))
    module = Module()
    replay = captured_groups(module, [1]).replayer(lambda: None, updates_of(module))
    replay([{"length": 3}])
    assert not module.limits


def test_memory_for_a_patch_is_taken_before_its_replay_waits_for_it() -> None:
    """A device without memory lets its replays end before it gives memory back: one would wait for the patch."""
    module = Module()
    groups = captured_groups(module, [1, 1])
    replay = groups.replayer(lambda: module.done.append((1, "launch", None)), updates_of(module))
    replay([{"length": 1}] * 2)  # has no such memory

    class Memory:
        memory = torch.empty(3)

        def serve(self, value: Any, args: Any, kwargs: Any) -> None:
            module.done.append((1, "memory", args[1]))

    given: list[Any] = []
    for group in groups.groups:
        group.workspace = Memory()  # type: ignore[assignment]
        group.launch = lambda *args, **kwargs: given.append(kwargs["workspace"])
    replay = groups.replayer(lambda: module.done.append((1, "launch", None)), updates_of(module))
    module.done.clear()
    replay([{"length": 1}, {"length": 3}])
    kinds = [(kind, subject) for _, kind, subject in module.done if kind in ("memory", "launch", "patch")]
    assert kinds == [("memory", 3), ("launch", None), ("patch", 1)]
    assert given == [Memory.memory]
