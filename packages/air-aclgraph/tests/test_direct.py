"""Calls go past AOTAutograd's wrapper where it does nothing, and through it where it does something."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

import air_aclgraph
from aclgraph_backend import unpadded
from air_aclgraph import DirectCall, Executable, Wrapped, _direct, native
from air_aclgraph._direct import without_side_effects


@pytest.fixture(autouse=True, params=["builtin", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Everything holds with the builtin, and with the Python function that stands in for it."""
    if request.param == "python":
        monkeypatch.setattr(_direct, "_without_frames", lambda *objects: None)
    elif native.library() is None:
        pytest.skip("needs a C++ compiler, as the builtins do")
    way: str = request.param
    return way


class Watched:
    """A backend whose executables are called directly where that may be; counts the ways of the calls."""

    def __init__(self) -> None:
        self.executables: list[Executable] = []
        self.through_wrapper = 0

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any]) -> Any:
        direct_call = DirectCall()

        def compiler(gm: GraphModule, example_inputs: Sequence[Any]) -> Any:
            self.executables.append(unpadded(gm, example_inputs))
            return direct_call.enter(self.executables[-1])

        compiled = aot_autograd(
            fw_compiler=compiler, inference_compiler=compiler, keep_inference_input_mutations=True
        )(gm, example_inputs)

        def counting(*args: Any) -> Any:
            self.through_wrapper += 1
            return compiled(*args)

        return direct_call.around(counting)


def calls_through_wrapper(function: Callable[..., Any], *args: Any, calls: int = 4) -> int:
    """Compiles, calls, compares each call with eager, and says how many calls met the wrapper."""
    backend = Watched()
    compiled = torch.compile(function, backend=backend, dynamic=False)
    for _ in range(calls):
        mine, theirs = [[a.clone() if isinstance(a, Tensor) else a for a in args] for _ in range(2)]
        torch.testing.assert_close(compiled(*mine), function(*theirs))
        torch.testing.assert_close(mine, theirs)
    return backend.through_wrapper


def test_only_the_first_call_of_an_ordinary_graph_goes_through_the_wrapper() -> None:
    with torch.no_grad():
        assert (
            calls_through_wrapper(lambda x, y: (x @ y + 1, x * 2), torch.randn(3, 3), torch.randn(3, 3)) == 1
        )


def test_a_cache_written_under_no_grad_needs_no_wrapper() -> None:
    def step(cache: Tensor, x: Tensor) -> Tensor:
        cache[1:2].copy_(x)
        return cache.sum(0)

    with torch.no_grad():
        assert calls_through_wrapper(step, torch.zeros(4, 8), torch.randn(1, 8)) == 1


def test_gradients_are_off_inside_and_as_before_outside() -> None:
    backend = Watched()
    frozen = nn.Linear(4, 4).requires_grad_(False)
    compiled = torch.compile(frozen, backend=backend)
    x = torch.randn(2, 4)
    for _ in range(4):
        assert torch.is_grad_enabled()
        out = compiled(x)
        assert not out.requires_grad
        torch.testing.assert_close(out, frozen(x))
    assert torch.is_grad_enabled()
    assert backend.through_wrapper == 1


def test_gradients_are_as_before_also_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Watched()
    compiled = torch.compile(lambda x: x + 1, backend=backend)
    x = torch.randn(2)
    for _ in range(3):
        compiled(x)
    backend.executables[0].close()
    with pytest.raises(air_aclgraph.errors.Closed):
        compiled(x)
    assert torch.is_grad_enabled()


def test_autocast_is_off_inside_as_in_the_wrapper() -> None:
    backend = Watched()
    compiled = torch.compile(lambda x, y: torch.nn.functional.silu(x) @ y, backend=backend)
    x, y = torch.randn(8, 8), torch.randn(8, 8)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(4):
            out = compiled(x, y)
            assert out.dtype == torch.bfloat16
            torch.testing.assert_close(out, torch.nn.functional.silu(x) @ y)
    assert backend.through_wrapper == 1


@pytest.mark.parametrize(
    ("function", "because"),
    [
        (lambda x: (x.view(-1), x + 1), "an output is a view of an input"),
        (lambda x: (x.mul_(2)[0], x + 1), "an output is a view of a written input"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_wrapper_stays_where_it_rebuilds_something(function: Callable[..., Any], because: str) -> None:
    with torch.no_grad():
        assert calls_through_wrapper(function, torch.randn(3, 2), calls=4) == 4, because


def test_the_wrapper_stays_for_two_views_of_one_base_of_which_one_is_written() -> None:
    backend = Watched()

    def step(a: Tensor, b: Tensor) -> Tensor:
        a.add_(1)
        return a + b

    compiled = torch.compile(step, backend=backend, dynamic=False)
    with torch.no_grad():
        for _ in range(4):
            mine, theirs = torch.arange(6.0), torch.arange(6.0)
            torch.testing.assert_close(compiled(mine[:4], mine[2:]), step(theirs[:4], theirs[2:]))
            torch.testing.assert_close(mine, theirs)
    assert backend.through_wrapper == 4


def test_version_counters_of_written_inputs_move_past_the_wrapper_as_well() -> None:
    backend = Watched()
    compiled = torch.compile(lambda x, y: (x.add_(1) + y.mul_(2)) * 2, backend=backend)
    x, y = torch.zeros(3), torch.ones(3)
    for _ in range(4):
        before = x._version, y._version
        compiled(x, y)
        assert x._version > before[0]
        assert y._version > before[1]
    assert backend.through_wrapper == 1


def test_training_graphs_keep_the_wrapper() -> None:
    called: list[int] = []
    run = DirectCall().around(called.append)
    for number in range(3):
        run(number)
    assert called == [0, 1, 2]


def test_metadata_that_is_unknown_keeps_the_wrapper() -> None:
    assert not without_side_effects(None)
    assert not without_side_effects(object())


def test_moved_parameters_are_found_past_the_wrapper_as_well() -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(4, 4) for _ in range(6)]
    model = nn.Sequential(*layers).requires_grad_(False)
    backend = Watched()
    compiled = torch.compile(model, backend=backend, dynamic=False)
    x = torch.randn(2, 4)

    def moved_by_data() -> None:
        layers[0].weight.data = torch.randn(4, 4)

    def moved_by_set() -> None:
        layers[1].weight.set_(torch.randn(4, 4))  # type: ignore[call-overload]  # stub lacks it

    def replaced() -> None:
        layers[2].weight = nn.Parameter(torch.randn(4, 4), requires_grad=False)

    def written() -> None:
        layers[3].weight.fill_(0.5)

    with torch.no_grad():
        for move in (written, moved_by_data, moved_by_set, replaced, written):
            for _ in range(3):
                torch.testing.assert_close(compiled(x).clone(), model(x))
            move()
            torch.testing.assert_close(compiled(x).clone(), model(x))
    assert len(backend.executables) == 1
    assert backend.through_wrapper == 1


def test_first_calls_of_several_threads_are_all_right() -> None:
    backend = Watched()
    compiled = torch.compile(lambda x: x * 2 + 1, backend=backend, dynamic=False)
    with torch.no_grad():
        compiled(torch.zeros(3))
    wrong: list[float] = []

    def work(number: int) -> None:
        with torch.no_grad():
            for turn in range(50):
                x = torch.full((3,), float(number * 100 + turn))
                compiled(x)  # its value is a view that another thread's call may overwrite
        if backend.through_wrapper > 4:
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class Doubles:
    """An executor that keeps what it was given."""

    name = "doubles"

    def __init__(self) -> None:
        self.given: list[Sequence[Any]] = []

    def boxed(self, args: Sequence[Any]) -> tuple[Any, ...]:
        self.given.append(args)
        if args[0] is None:
            raise KeyError("no input")
        return (args[0] * 2,)


def straight(executor: Doubles) -> Callable[..., Any]:
    """A direct call whose wrapper does nothing, after its first call."""
    direct_call = DirectCall()
    direct_call.enter(executor, Wrapped(plain=True))

    def wrapper(*args: Any) -> Any:
        given = tuple(args)
        outputs = executor.boxed(given)
        direct_call._seen.append((given, outputs))
        return outputs

    call = direct_call.around(wrapper)
    call(torch.ones(1))
    return call


@torch.no_grad()
def test_the_executor_is_called_without_a_frame_in_between(way: str) -> None:
    executor = Doubles()
    call = straight(executor)
    seen: list[str] = []
    sys.setprofile(
        lambda frame, event, argument: seen.append(frame.f_code.co_name) if event == "call" else None
    )
    try:
        call(torch.ones(1), 2)
    finally:
        sys.setprofile(None)
    assert seen == (["boxed"] if way == "builtin" else ["call", "boxed"])
    assert executor.given[-1] == (torch.ones(1), 2)


@torch.no_grad()
def test_errors_and_wrong_calls_are_the_executors_and_pythons() -> None:
    call = straight(Doubles())
    with pytest.raises(KeyError, match="no input"):
        call(None)
    with pytest.raises(TypeError):
        call(x=torch.ones(1))
    assert call(torch.ones(1))[0].item() == 2


@torch.no_grad()
def test_what_dynamo_calls_keeps_the_executor_and_lets_go_of_it() -> None:
    executor = Doubles()
    alive = weakref.ref(executor)
    call = straight(executor)
    del executor
    gc.collect()
    assert alive() is not None
    assert call(torch.ones(1))[0].item() == 2
    del call
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("cast", [False, True])
def test_N25_an_interrupt_that_follows_the_switch_of_gradients_switches_them_back(
    cast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch, interrupts = torch._C._set_grad_enabled, [False]

    def switched(on: bool) -> None:
        switch(on)
        if interrupts[0] and not on:
            raise KeyboardInterrupt

    monkeypatch.setattr(torch._C, "_set_grad_enabled", switched)
    compiled = torch.compile(lambda x: x * 2, backend=Watched())
    for _ in range(3):
        compiled(torch.ones(3))
    interrupts[0] = True
    try:
        with pytest.raises(KeyboardInterrupt), torch.autocast("cpu", enabled=cast):
            compiled(torch.ones(3))
        assert torch.is_grad_enabled()
    finally:
        switch(True)


class Interrupting:
    """A lock that is interrupted right after it was taken, or while it is waited for."""

    def __init__(self, lock: Any) -> None:
        self.lock, self.when = lock, ""

    def acquire(self) -> None:
        if self.when != "waiting":
            self.lock.acquire()
        if self.when:
            raise KeyboardInterrupt

    def release(self) -> None:
        self.lock.release()


@pytest.mark.parametrize("when", ["taken", "waiting"])
def test_N25_an_interrupt_at_the_lock_leaves_it_free(when: str, way: str) -> None:
    backend = Watched()
    compiled = torch.compile(lambda x: x * 2, backend=backend)
    for _ in range(3):
        compiled(torch.ones(3))
    (run,) = backend.executables
    lock = Interrupting(run.runtime.lock)
    run._acquire, run._release = lock.acquire, lock.release
    # a lock of Python's is interrupted while it waits, or in the function in Python that has taken it
    call = run.direct() if way == "builtin" and when == "waiting" else run.boxed
    lock.when = when
    with pytest.raises(KeyboardInterrupt):
        call((torch.ones(3),))
    lock.when = ""
    found: list[Tensor] = []
    thread = threading.Thread(target=lambda: found.append(call((torch.ones(3),))), daemon=True)
    thread.start()
    thread.join(20)
    assert found, "another thread waits for a lock that nobody will release"


def test_N25_calls_of_other_threads_are_no_part_of_what_a_thread_witnesses() -> None:
    mine = torch.compile(lambda x: x * 2, backend=Watched())
    others = torch.compile(lambda x: x * 3, backend=Watched())
    for _ in range(3):
        mine(torch.ones(3))
        others(torch.ones(3))
    over, problems = threading.Event(), []

    def work() -> None:
        while not over.is_set():
            for compiled, factor in ((mine, 2.0), (others, 3.0)):
                if compiled(torch.ones(3)).tolist() != [factor] * 3:
                    problems.append(factor)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            with _direct.witnessed() as seen:
                assert mine(torch.ones(3)).tolist() == [2.0] * 3
            assert len(seen) == 1, "this thread called one graph"
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not problems
    with _direct.witnessed() as seen:
        pass
    assert mine(torch.ones(3)).tolist() == [2.0] * 3
    assert not seen


def test_first_calls_of_two_threads_may_wait_for_each_other() -> None:
    """As collectives between threads do: an operator ends when the other thread has come to it."""
    barrier = threading.Barrier(2, timeout=60)
    entered = threading.Event()

    def meet(x: Tensor) -> Tensor:
        entered.set()
        barrier.wait()
        return x.clone()

    with torch.library._scoped_library("air_test_meeting", "FRAGMENT") as library:
        library.define("meet(Tensor x) -> Tensor")
        library.impl("meet", meet, "CompositeExplicitAutograd")
        torch.library.register_fake("air_test_meeting::meet", torch.empty_like, lib=library)
        run = torch.compile(lambda x: torch.ops.air_test_meeting.meet(x * 2) + 1, backend=Watched())
        made: dict[int, list[float]] = {}

        def call(number: int) -> None:
            with torch.no_grad():
                made[number] = run(torch.full((2,), float(number))).tolist()

        threads = [threading.Thread(target=call, args=(number,)) for number in range(2)]
        threads[0].start()
        assert entered.wait(60)  # the first call is under way: its graph is compiled
        threads[1].start()
        for thread in threads:
            thread.join(120)
    assert made == {0: [1.0, 1.0], 1: [3.0, 3.0]}
