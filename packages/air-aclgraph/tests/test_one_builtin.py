"""The builtin that replays a key does what the function in Python does, and leaves to it what is not as it was."""

from __future__ import annotations

import contextlib
import gc
import random
import shutil
import threading
import traceback
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.profiler import ProfilerActivity, profile

from aclgraph_backend import executable
from air_aclgraph import Executable, HostRuntime, Recording, Request, _captured
from air_aclgraph._kept import LEND_AFTER

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a compiler")

LENT_AT = LEND_AFTER + 2


@pytest.fixture
def python(monkeypatch: pytest.MonkeyPatch) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Inside, keys are made without the builtin."""

    @contextlib.contextmanager
    def without() -> Iterator[None]:
        with monkeypatch.context() as patched:
            patched.setattr(_captured, "in_one_builtin", lambda captured, careful: careful)
            yield

    return without


def mixed(x: Tensor, y: Tensor, w: Tensor) -> tuple[Any, ...]:
    return x * w, x + y, y, 7, None, (w - y).sum()


def lent(function: Callable[..., Any], *args: Tensor, **options: Any) -> Executable:
    """A graph whose outputs nobody kept."""
    run = executable(function, *args, device=args[0].device.type, **options)
    for _ in range(LENT_AT):
        run(*args)
    return run


def is_builtin(run: Executable) -> bool:
    return type(run._only[0]) is types.BuiltinFunctionType


def three(device: str) -> list[Tensor]:
    return [torch.randn(3, 4, device=device) for _ in range(3)]


def alike(found: Sequence[Any], wanted: Sequence[Any]) -> bool:
    pairs = zip(found, wanted, strict=True)
    return all(torch.equal(f, w) if isinstance(w, Tensor) else f is w for f, w in pairs)


def test_a_key_whose_outputs_are_lent_is_replayed_by_a_builtin(device: str) -> None:
    args = three(device)
    run = lent(mixed, *args, static=[2])
    assert is_builtin(run)
    assert alike(run(*args), mixed(*args))
    other = [*three(device)[:2], args[2]]
    assert alike(run(*other), mixed(*other))
    assert run(*other)[2] is other[1], "an input that is handed back is the caller's"


@pytest.mark.parametrize("options", [{"air__outputs": "view"}, {"air__outputs": "clone"}, {}])
def test_a_key_with_other_steps_has_the_function_in_python(options: dict[str, Any], device: str) -> None:
    def written(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return (x.add_(y), y * 2)

    first, second = torch.ones(3, device=device), torch.ones(3, device=device)
    run = executable(written, first, second, device=device, static=[0], **options)
    for _ in range(LENT_AT + 1):
        run(first, second)
    assert not is_builtin(run)
    assert first[0].item() == LENT_AT + 2.0


def test_a_parameter_that_moved_is_read_where_it_is(device: str) -> None:
    x, y, w = three(device)
    run = lent(mixed, x, y, w, static=[2])
    for _ in range(LENT_AT + 3):
        w = w.clone()
        assert alike(run(x, y, w), mixed(x, y, w))
    with torch.no_grad():
        w.data = torch.randn(3, 4, device=device)
    assert alike(run(x, y, w), mixed(x, y, w))


def test_more_inputs_than_fit_on_the_stack_are_copied(device: str) -> None:
    def summed(*inputs: Tensor) -> tuple[Tensor, ...]:
        return (torch.stack(inputs).sum(0),)

    args = [torch.full((2,), float(n), device=device) for n in range(90)]
    run = lent(summed, *args)
    assert is_builtin(run)
    again = [a + 1 for a in args]
    assert torch.equal(run(*again)[0], summed(*again)[0])


def test_an_output_that_is_kept_is_not_written(device: str) -> None:
    args = three(device)
    run = lent(mixed, *args, static=[2])
    kept = run(*args)
    wanted = mixed(*args)
    for _ in range(3):
        run(*three(device)[:2], args[2])
    assert alike(kept, wanted)


def test_both_count_the_same(python: Any, device: str) -> None:
    args = three(device)
    with python():
        slow = lent(mixed, *args, static=[2])
    fast = lent(mixed, *args, static=[2])
    assert (is_builtin(slow), is_builtin(fast)) == (False, True)
    added = []
    for run in (slow, fast):
        before = dict(counters["air"])
        for _ in range(3):
            run.direct()(tuple(args))
        added.append({name: number - before[name] for name, number in counters["air"].items()})
    assert added[0] == added[1] != {}
    assert fast.explain()["keys"][0]["replays"] == slow.explain()["keys"][0]["replays"]
    counters.clear()
    fast(*args)
    assert counters["air"]["replays"] == counters["air"]["calls"] == 1


def test_a_profiler_sees_the_names_of_a_call(device: str) -> None:
    args = three(device)
    run = lent(mixed, *args, static=[2])
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        found = run(*args)
    assert alike(found, mixed(*args))
    names = {event.name for event in seen.events() or ()}
    assert {"air: copy mixed", "air: replay mixed"} <= names
    assert alike(run(*args), mixed(*args))


class Failing(HostRuntime):
    """A host runtime whose replays raise what they are told to, and whose errors are explained."""

    error: BaseException | None = None

    def record(self, body: Callable[..., Any], inputs: Sequence[object], request: Request) -> Recording:
        recording = super().record(body, inputs, request)
        return replace(recording, replay=lambda: self._replay(recording), explain_error=_explained)

    def _replay(self, recording: Recording) -> None:
        if self.error is not None:
            raise self.error
        recording.replay()


def _explained(error: RuntimeError) -> RuntimeError:
    return RuntimeError(f"explained: {error}")


@pytest.mark.parametrize("way", ["builtin", "python"])
@pytest.mark.parametrize("error", [RuntimeError("507011"), KeyError("no such"), KeyboardInterrupt()])
def test_an_error_of_a_replay_is_told_and_the_next_call_is_right(
    way: str, error: BaseException, python: Any
) -> None:
    args, runtime = three("cpu"), Failing()
    with python() if way == "python" else contextlib.nullcontext():
        run = lent(mixed, *args, static=[2], runtime=runtime)
        run(*args)
    direct = run.direct()
    assert is_builtin(run) == (way == "builtin")
    runtime.error = error
    with pytest.raises(type(error)) as raised:
        direct(tuple(args))
    if isinstance(error, RuntimeError):
        assert str(raised.value) == "explained: 507011"
        assert raised.value.__context__ is error
    else:
        assert raised.value is error
    frames = {frame.name for frame in traceback.extract_tb(error.__traceback__)}
    assert "_replay" in frames, "the traceback shows where it was raised"
    runtime.error = None
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(direct(tuple(args))), daemon=True)
    thread.start()
    thread.join(20)
    assert len(found) == 1, "the lock is not free"
    assert alike(found[0], mixed(*args))


def test_a_call_inside_a_replay_runs_beside_it() -> None:
    args = three("cpu")
    run = lent(mixed, *args, static=[2])
    runtime: Any = run.runtime
    with runtime._turns.taking():
        assert alike(run.direct()(tuple(args)), mixed(*args))
    assert run.stats()["eager_calls"] == {"inside another capture or replay": 1}


def test_a_list_of_arguments_is_taken_as_a_tuple_is(device: str) -> None:
    args = three(device)
    run = lent(mixed, *args, static=[2])
    assert alike(run.boxed(list(args)), mixed(*args))
    assert alike(run.direct()(list(args)), mixed(*args))


def test_a_piece_of_a_graph_is_called_with_its_arguments(device: str) -> None:
    args = three(device)
    run = lent(mixed, *args, static=[2])
    before = counters["air"]["calls"]
    assert alike(run.spread()(*args), mixed(*args))
    assert counters["air"]["calls"] == before + 1
    sized = executable(lambda x: (x * 2,), torch.ones(3, 2, device=device), device=device, dynamic=True)
    assert sized.spread()(torch.ones(4, 2, device=device))[0].tolist() == [[2.0, 2.0]] * 4


def test_something_that_is_no_tensor_is_refused_as_before(python: Any) -> None:
    args = three("cpu")
    with python():
        slow = lent(mixed, *args, static=[2])
    for run in (slow, lent(mixed, *args, static=[2])):
        with pytest.raises((TypeError, AttributeError)):
            run(args[0], args[1], "no tensor")
        assert alike(run(*args), mixed(*args))


def test_nothing_holds_a_graph_that_is_gone() -> None:
    args = three("cpu")
    gc.collect()
    gc.disable()
    try:
        run = lent(mixed, *args, static=[2])
        assert is_builtin(run)
        direct = run.direct()
        memory = weakref.ref(run._captured[()].outputs[0].tensor)  # type: ignore[union-attr]  # its own memory
        alive = weakref.ref(run)
        del run
        assert alive() is not None, "what Dynamo calls holds it"
        del direct
        gc.collect()
        assert alive() is None
        assert memory() is None
    finally:
        gc.enable()


def test_a_closed_graph_says_so_past_the_builtin(device: str) -> None:
    args = three(device)
    run = lent(mixed, *args, static=[2])
    direct = run.direct()
    run.close()
    with pytest.raises(RuntimeError, match="closed"):
        direct(tuple(args))


@pytest.mark.parametrize("number", range(40))
def test_random_calls_of_lent_graphs_equal_eager(number: int, device: str) -> None:
    """Most calls find everything as it was; others bring moved tensors, keep outputs, or are profiled."""
    chance = random.Random(number)
    static = sorted(chance.sample(range(3), chance.randrange(4)))
    args = three(device)
    run = lent(mixed, *args, static=static)
    direct, kept = run.direct(), []
    for step in range(chance.randrange(6, 30)):
        dice = chance.random()
        if dice < 0.3:
            place = chance.randrange(3)
            args[place] = torch.randn(3, 4, device=device)
        elif dice < 0.4:
            args[chance.choice(range(3))].mul_(2)
        call = direct if chance.random() < 0.7 else run.boxed
        profiled = chance.random() < 0.05
        with profile(activities=[ProfilerActivity.CPU]) if profiled else contextlib.nullcontext():
            found = call(tuple(args) if chance.random() < 0.8 else list(args))
        wanted = mixed(*args)
        assert alike(found, wanted), f"call {step}"
        if chance.random() < 0.05:
            kept.append((found, [w.clone() if isinstance(w, Tensor) else w for w in wanted]))
        for before, then in kept:
            pairs = [(b, t) for place, (b, t) in enumerate(zip(before, then, strict=True)) if place != 2]
            assert alike([b for b, _ in pairs], [t for _, t in pairs]), f"an output kept before call {step}"
