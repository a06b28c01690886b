"""Inputs in other memory at each call: carried without a capture where the memory before is free, else captured."""

from __future__ import annotations

import gc
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from aclgraph_backend import Backend, executable
from air_aclgraph import _moved
from moved_caches import doubled, requests_of_two_graphs, step


def compiled(device: str, function: Any = step, *, dynamic: bool = False) -> Any:
    examples = torch.zeros(4, device=device), torch.ones(4, device=device)
    return executable(function, *examples, device=device, dynamic=dynamic)


def request(run: Any, device: str, calls: int = 3) -> Tensor:
    """Calls with a cache of its own, as one request makes them; gives the cache."""
    cache, twin = torch.zeros(4, device=device), torch.zeros(4, device=device)
    for number in range(calls):
        x = torch.full((4,), float(number), device=device)
        torch.testing.assert_close(run(cache, x)[0], step(twin, x)[0])
        torch.testing.assert_close(cache, twin)
    return cache


def test_N25_a_new_cache_for_each_request_needs_no_capture(device: str) -> None:
    run = compiled(device)
    for _ in range(5):
        request(run, device)
    assert run.stats()["captures"] == 1
    assert run.stats()["recaptures"] == {}
    (key,) = run.explain()["keys"]
    assert key["kinds"] == ["carried", "copied"]
    assert any("callers bring other memory" in line for line in run.explain()["history"])


def test_N25_caches_in_turn_are_carried_in_inference_mode_and_outside_of_it(device: str) -> None:
    """As by two models of one class, a target and its draft, that share a graph."""
    run = compiled(device)
    caches, twins = ([torch.zeros(4, device=device) for _ in range(3)] for _ in range(2))
    for mode in (torch.no_grad, torch.inference_mode, torch.no_grad, torch.inference_mode):
        for number in range(9):
            with mode():
                x = torch.full((4,), float(number), device=device)
                torch.testing.assert_close(run(caches[number % 3], x)[0], step(twins[number % 3], x)[0])
    torch.testing.assert_close(caches, twins)


def test_outputs_that_were_lent_are_lent_when_the_cache_is_carried(device: str) -> None:
    run = compiled(device)
    for _ in range(3):
        request(run, device, calls=8)
        (key,) = run.explain()["keys"]
        assert key["outputs"] == "lent"
    assert key["kinds"] == ["carried", "copied"]
    assert run.stats()["captures"] == 1
    kept = [
        run(torch.zeros(4, device=device), torch.full((4,), float(n), device=device))[0] for n in range(3)
    ]
    assert [float(each) for each in kept] == [0.0, 8.0, 16.0]


def test_what_is_written_into_many_caches_is_taken_back_in_one_copy(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(*caches: Tensor) -> tuple[Tensor, ...]:
        for number, cache in enumerate(caches[:-1]):
            cache.add_(caches[-1] + number)
        return (caches[0] * 2,)

    def requests() -> Any:
        while True:
            yield [torch.zeros(4, device=device) for _ in range(5)]

    seen: list[int] = []
    plain = torch._foreach_copy_

    def counting(targets: list[Tensor], *rest: Any) -> Any:
        seen.append(len(targets))
        return plain(targets, *rest)

    monkeypatch.setattr(torch, "_foreach_copy_", counting)
    x, made = torch.ones(4, device=device), requests()
    run = executable(written, *next(made), x)
    for _ in range(3):
        caches = next(made)
        for call in range(1, 4):
            seen.clear()
            (result,) = run(*caches, x)
            assert [cache.unique().tolist() for cache in caches] == [[call * (1.0 + n)] for n in range(5)]
            assert result.unique().tolist() == [2.0 * call]
        del caches
    assert run.stats()["captures"] == 1
    assert 5 in seen, "the copy back; that of the inputs has one more"


def test_many_small_tensors_are_worth_a_capture_sooner_than_one(device: str) -> None:
    runtime = executable(lambda x: (x + 1,), torch.ones(2, device=device)).runtime
    few, many = ([torch.zeros(16, device=device)] * number for number in (1, 64))
    worth = [_moved.calls_worth_a_capture(0.05, copied, runtime) for copied in (few, many)]
    assert worth[0] > 10 * worth[1]


def test_two_caches_in_turn_are_captured_again(device: str) -> None:
    run = compiled(device)
    first = request(run, device)
    second = request(run, device)
    assert run.stats()["recaptures"] == {"mutated input moved": 1}
    assert first.tolist() == second.tolist() == [3.0] * 4


@pytest.mark.parametrize("kept", ["view", "detached", "array", "storage"])
def test_what_is_kept_of_an_old_cache_is_not_written(device: str, kept: str) -> None:
    run = compiled(device)
    old = request(run, device)
    if kept == "array" and device != "cpu":
        pytest.skip("arrays are over memory of the host")
    held: Any = {
        "view": lambda cache: cache[1:3],
        "detached": Tensor.detach,
        "array": Tensor.numpy,
        "storage": Tensor.untyped_storage,
    }[kept](old)
    del old
    request(run, device, calls=2)
    if kept == "storage":
        held = torch.empty(0, device=device).set_(held)
    assert set(held.tolist()) == {3.0}
    assert run.stats()["captures"] == 2


def test_garbage_that_has_the_old_cache_is_collected_before_a_capture_is_made(device: str) -> None:
    run = compiled(device)
    gc.disable()
    try:
        cycle: list[Any] = [request(run, device)]
        cycle.append(cycle)
        del cycle
        request(run, device)
    finally:
        gc.enable()
    assert run.stats()["captures"] == 1


def test_two_graphs_over_one_cache_both_carry_the_next(device: str) -> None:
    runs = [compiled(device), compiled(device, doubled)]
    requests_of_two_graphs(device, *runs)
    assert [run.stats()["captures"] for run in runs] == [1, 1]


def test_a_cache_that_stays_is_bound_where_it_is(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_moved, "_LEAST_CALLS", 8)
    monkeypatch.setattr(_moved, "_BYTES_PER_SECOND", {device: 1.0})
    run = compiled(device)
    for _ in range(3):
        request(run, device)
    assert run.stats()["captures"] == 1
    request(run, device, calls=24)
    assert run.stats()["captures"] == 2
    assert any("carried -> mutated, its address stays" in line for line in run.explain()["history"])
    request(run, device)
    assert run.stats()["captures"] == 2  # the next one is carried again


def test_a_view_of_the_cache_that_is_returned_is_one_of_the_caller_s_own(device: str) -> None:
    run = compiled(device, lambda cache, x: (cache.add_(x)[1:], (cache * 2).sum()))
    for _ in range(3):
        cache = torch.zeros(4, device=device)
        for count in (1.0, 2.0):
            view, total = run(cache, torch.ones(4, device=device))
            assert view.data_ptr() == cache[1:].data_ptr()
            assert view.tolist() == [count] * 3
            assert total.item() == 8 * count
        del view
    assert run.stats()["captures"] == 1


def test_caches_that_are_parts_of_one_memory_are_captured_again(device: str) -> None:
    def both(one: Tensor, other: Tensor) -> tuple[Tensor]:
        one.add_(1)
        other.mul_(2)
        return (one.sum() + other.sum(),)

    run = executable(both, torch.zeros(4, device=device), torch.zeros(4, device=device), device=device)
    for _ in range(3):
        memory = torch.ones(6, device=device)
        twin = memory.clone()
        run(memory[:4], memory[2:])
        both(twin[:4], twin[2:])
        torch.testing.assert_close(memory, twin)


def test_a_tensor_marked_as_static_that_is_only_read_is_copied_from_then_on() -> None:
    backend = Backend()
    run = torch.compile(lambda table, x: (table * x).sum(), backend=backend)
    for number in range(4):
        table = torch.full((4,), float(number))
        torch._dynamo.mark_static_address(table)
        for factor in (1.0, 2.0):
            assert run(table, torch.full((4,), factor)).item() == 4 * number * factor
    assert backend.only.stats()["captures"] == 1


def test_a_parameter_that_moves_is_captured_again() -> None:
    backend = Backend()
    layer = torch.nn.Linear(4, 4, bias=False)
    run = torch.compile(layer, backend=backend)
    with torch.no_grad():
        for factor in (1.0, 2.0, 3.0):
            layer.weight.data = torch.eye(4) * factor
            assert run(torch.ones(4)).tolist() == [factor] * 4
    assert backend.only.stats()["captures"] == 3


def test_a_cache_that_shares_memory_with_an_input_that_is_read_in_place_is_not_carried(device: str) -> None:
    def both(cache: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        cache.mul_(2)
        return cache * 2, x * 3

    memory = torch.ones(6, device=device)
    x = memory[2:]
    run = executable(both, torch.ones(4, device=device), x, device=device, debug__aclgraph__clone_input=False)
    run(torch.ones(4, device=device), x)
    for _ in range(3):  # the first cache is gone, and this one is written where x is read
        twin = memory.clone()
        expected = both(twin[:4], twin[2:])
        for found, wanted in zip(run(memory[:4], x), expected, strict=True):
            torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(memory, twin)


def scaled(weight: Tensor, x: Tensor) -> tuple[Tensor]:
    return (weight * x,)


def test_a_parameter_in_other_memory_at_each_call_is_captured_three_times_and_then_copied(
    device: str,
) -> None:
    run = executable(
        scaled, torch.ones(4, device=device), torch.ones(4, device=device), device=device, static=[0]
    )
    x = torch.arange(4.0, device=device)
    weight = torch.nn.Parameter(torch.zeros(4, device=device))
    gathered = [torch.full((4,), float(number), device=device) for number in range(12)]
    with torch.no_grad():
        for values in gathered:
            weight.data = values
            torch.testing.assert_close(run(weight, x)[0], values * x)
    assert run.stats()["captures"] == 3
    assert run.explain()["keys"][0]["kinds"] == ["copied", "copied"]


def test_a_parameter_that_moved_and_stays_is_used_where_it_is(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_moved, "_LEAST_CALLS", 4)
    monkeypatch.setitem(_moved._BYTES_PER_SECOND, "cpu", 1.0)
    monkeypatch.setattr(_moved, "_ON_DEVICES", 1.0)
    run = executable(
        scaled, torch.ones(4, device=device), torch.ones(4, device=device), device=device, static=[0]
    )
    x = torch.arange(4.0, device=device)
    weights = [torch.full((4,), float(number), device=device) for number in range(4)]
    for weight in (*weights, *[weights[-1]] * 8):
        torch.testing.assert_close(run(weight, x)[0], weight * x)
    assert run.explain()["keys"][0]["kinds"] == ["static", "copied"]
    captures = run.stats()["captures"]
    for _ in range(6):
        run(weights[-1], x)
    assert run.stats()["captures"] == captures == 4


@pytest.mark.parametrize("kind", ["array", "part of a storage", "shared"])
def test_memory_that_others_may_have_is_not_carried_through(kind: str) -> None:
    """An array lives on without any tensor over it: what a later request writes is not for it."""
    memories: list[Any] = []

    def cache() -> Tensor:
        if kind == "array":
            memories.append(np.zeros(4, np.float32))
            return torch.from_numpy(memories[-1])
        if kind == "shared":
            memories.append(torch.zeros(4).share_memory_().untyped_storage())
            return torch.empty(0).set_(memories[-1])
        memories.append(torch.zeros(8).untyped_storage())
        return torch.empty(0).set_(memories[-1][:16])

    run = compiled("cpu")
    for number in range(4):
        run(cache(), torch.full((4,), float(number)))
    values = [
        memory if isinstance(memory, np.ndarray) else torch.empty(0).set_(memory)[:4].numpy()
        for memory in memories
    ]
    assert [value.tolist() for value in values] == [[float(number)] * 4 for number in range(4)]


def test_what_moved_is_looked_for_and_not_all_that_graphs_hold() -> None:
    def asked(length: int) -> int:
        def written(cache: Tensor, x: Tensor) -> Tensor:
            for _ in range(length):
                x = x.sin() + cache
            cache.add_(x)
            return x

        run = executable(written, torch.zeros(4), torch.ones(4))
        run(torch.zeros(4), torch.ones(4))
        count = 0

        def counted(frame: FrameType, event: str, called: Any) -> None:
            nonlocal count
            count += event == "c_call" and called.__name__ == "untyped_storage"

        moved, x = torch.zeros(4), torch.ones(4)
        sys.setprofile(counted)
        try:
            run(moved, x)
        finally:
            sys.setprofile(None)
        assert run.stats()["captures"] == 1
        return count

    assert asked(40) == asked(2) > 0
