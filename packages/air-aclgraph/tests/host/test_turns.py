"""Compiled functions that are called while another one is recorded or replayed: by its kernels, or by other threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from aclgraph_backend import Backend, executable
from air_aclgraph import HostRuntime
from air_aclgraph.host._turns import Turns

_numbers = iter(range(1000))


@pytest.fixture
def operator() -> Iterator[Callable[[Callable[[Tensor], Tensor]], Any]]:
    """Makes a custom operator of a kernel whose result is like its argument."""
    libraries = []

    def make(kernel: Callable[[Tensor], Tensor]) -> Any:
        library = torch.library.Library(f"turns{next(_numbers)}", "DEF")
        libraries.append(library)
        library.define("run(Tensor x) -> Tensor")
        library.impl("run", kernel, "CPU")
        torch.library.register_fake(f"{library.ns}::run", torch.empty_like, lib=library)
        return getattr(torch.ops, library.ns).run

    yield make
    for library in libraries:
        library._destroy()


def inner(x: Tensor) -> Tensor:
    for _ in range(3):
        x = (x + 1).relu() * 2
    return x + x.sum()


def around(nested: Any) -> Callable[[Tensor], Tensor]:
    def outer(x: Tensor) -> Tensor:
        y = x * 3
        z = y + 1
        result: Tensor = nested(z) + y - z
        return result

    return outer


def assert_calls_are_right(outer: Callable[[Tensor], Tensor], backend: Backend, calls: int = 6) -> None:
    compiled = torch.compile(outer, backend=backend)
    for value in range(calls):
        x = torch.full((8,), float(value))
        torch.testing.assert_close(compiled(x), outer(x))


@pytest.mark.parametrize("outputs", ["kept", "view", "clone"])
@pytest.mark.parametrize("known", [0, 3, 9])
def test_N25_a_compiled_function_inside_a_kernel_leaves_the_outer_graph_alone(
    known: int, outputs: str, operator: Any
) -> None:
    nested = torch.compile(inner, backend=Backend(air__outputs=outputs))
    for _ in range(known):
        nested(torch.ones(64, 64))
    call = operator(lambda x: nested(x.new_ones(64, 64)).sum() + x)
    backend = Backend(air__outputs=outputs)
    assert_calls_are_right(around(call), backend)
    assert backend.only.stats()["captures"] == 1
    assert backend.only.stats()["eager_calls"] == {}


def test_a_call_inside_a_replay_says_that_it_ran_without_a_capture(operator: Any) -> None:
    backend = Backend()
    nested = torch.compile(inner, backend=backend)
    nested(torch.ones(8))
    assert_calls_are_right(around(operator(lambda x: nested(x) + 0)), Backend())
    causes = [
        run.stats()["eager_calls"].get("inside another capture or replay", 0) for run in backend.executables
    ]
    assert sum(causes) == 6


def test_a_graph_that_calls_itself_through_a_kernel_keeps_its_inputs(operator: Any) -> None:
    compiled: list[Callable[[Tensor], Tensor]] = []

    def kernel(x: Tensor) -> Tensor:
        return compiled[0](x - 100) if x[0] > 0 else x * 1

    outer = around(operator(kernel))
    compiled.append(torch.compile(outer, backend=Backend()))
    for value in (1.0, -4.0, 0.0, 0.5, -2.0):
        x = torch.full((8,), value)
        found = compiled[0](x)
        plain, compiled[0] = compiled[0], outer
        torch.testing.assert_close(found, outer(x))
        compiled[0] = plain


def test_what_a_nested_call_returns_is_no_part_of_the_outer_recording(operator: Any) -> None:
    nested = torch.compile(inner, backend=Backend())
    for _ in range(9):
        nested(torch.ones(8))
    call = operator(lambda x: nested(x))
    compiled = torch.compile(lambda x: (call(x), call(x + 1)), backend=Backend())
    kept = [compiled(torch.full((8,), float(value))) for value in range(5)]
    for value, (first, second) in enumerate(kept):
        torch.testing.assert_close(first, inner(torch.full((8,), float(value))))
        torch.testing.assert_close(second, inner(torch.full((8,), value + 1.0)))


def test_a_pinned_call_inside_a_replay_runs_without_its_capture(operator: Any) -> None:
    backend = Backend()
    nested = torch.compile(inner, backend=backend)
    nested(torch.ones(8))
    handle = backend.only.pin(torch.ones(8))
    call = operator(lambda x: handle(x)[0] + 0)
    compiled = torch.compile(around(call), backend=Backend())
    for value in range(4):
        x = torch.full((8,), float(value))
        torch.testing.assert_close(compiled(x), inner(x * 3 + 1) - 1)


@pytest.mark.parametrize("calls_before", [0, 3])
def test_a_kernel_may_wait_for_a_thread_that_calls_a_compiled_function(
    calls_before: int, operator: Any
) -> None:
    nested = torch.compile(inner, backend=Backend())
    nested(torch.ones(8))

    def kernel(x: Tensor) -> Tensor:
        found: list[Tensor] = []
        thread = threading.Thread(target=lambda: found.append(nested(x)), daemon=True)
        thread.start()
        thread.join(30)
        assert found, "the thread waits for the lock that this kernel's replay has"
        return found[0] + 0

    outer = around(operator(kernel))
    for _ in range(calls_before):
        outer(torch.ones(8))
    assert_calls_are_right(outer, Backend())


def test_threads_that_call_graphs_with_kernels_of_the_users_get_their_own_results(operator: Any) -> None:
    nested = torch.compile(inner, backend=Backend())
    nested(torch.ones(8))
    call = operator(lambda x: nested(x) + 0)
    outer = around(call)
    compiled = torch.compile(outer, backend=Backend())
    problems: list[object] = []

    def work(number: int) -> None:
        for step in range(25):
            x = torch.full((8,), float(10 * number + step))
            found = compiled(x) if step % 2 else nested(x)
            expected = inner(x * 3 + 1) - 1 if step % 2 else inner(x)
            if not torch.equal(found, expected):
                problems.append((number, step))

    compiled(torch.ones(8))
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_an_error_inside_a_kernel_leaves_the_next_call_captured(operator: Any) -> None:
    fails = [False]

    def kernel(x: Tensor) -> Tensor:
        if fails[0]:
            raise ValueError("the kernel's")
        return x * 1

    backend = Backend()
    compiled = torch.compile(around(operator(kernel)), backend=backend)
    compiled(torch.ones(8))
    fails[0] = True
    with pytest.raises(ValueError, match="the kernel's"):
        compiled(torch.ones(8))
    fails[0] = False
    compiled(torch.ones(8))
    assert backend.only.stats()["eager_calls"] == {}


def test_a_turn_inside_a_turn_ends_with_the_outer_one() -> None:
    turns = Turns()
    with turns.taking():
        assert turns.taken == [True]
        with turns.taking():
            pass
        assert turns.taken == [True], "the outer one is not over"
    assert turns.taken == [False]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("where", ["in a kernel", "with the lock"])
def test_N25_the_child_of_a_fork_does_not_wait_for_a_thread_of_its_parent(where: str, operator: Any) -> None:
    inside, over, waits = threading.Event(), threading.Event(), [False]

    def wait() -> None:
        inside.set()
        over.wait(60)

    def kernel(x: Tensor) -> Tensor:
        if waits[0]:
            wait()
        return x * 1

    runtime = HostRuntime()
    call = operator(kernel)
    held = executable(lambda x: (call(x),), torch.ones(8), runtime=runtime)
    plain = executable(lambda x: (x * 2,), torch.ones(8), runtime=runtime)
    for run in (held, plain):
        run(torch.ones(8))
    waits[0] = True

    def holding() -> None:
        if where == "in a kernel":
            held(torch.ones(8))
            return
        with runtime.lock:
            wait()

    thread = threading.Thread(target=holding)
    thread.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            works = all(bool((plain(torch.full((8,), v))[0] == 2 * v).all()) for v in (3.0, 4.0))
            code = 0 if works and plain.stats()["eager_calls"] == {} else 2
        finally:
            os._exit(code)
    status = _status_within(child, 30)
    over.set()
    thread.join()
    assert status == 0, "the child hangs" if status is None else f"the child ended with {status}"


def _status_within(child: int, seconds: float) -> int | None:
    """What a process ended with; None if it did not, and was ended."""
    found: list[int] = []
    waiter = threading.Thread(target=lambda: found.append(os.waitpid(child, 0)[1]), daemon=True)
    waiter.start()
    waiter.join(seconds)
    if found:
        return os.waitstatus_to_exitcode(found[0])
    os.kill(child, 9)
    return None
