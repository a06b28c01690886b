"""Large inputs that stay in one memory are read there; those that move are copied."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from aclgraph_backend import Backend, executable
from air_aclgraph import _making
from air_aclgraph._large import LARGE, MOVES_ALLOWED, PARTS_ALLOWED, Stays, large
from air_aclgraph._policy import LARGE_MOVES_ALLOWED

ROWS = LARGE // (4 * 16)
WORTH = 9


@pytest.fixture(autouse=True)
def _a_capture_costs_as_much_as_nine_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_making, "calls_worth_a_capture", lambda *_: WORTH)


def some_of(table: Tensor, index: Tensor) -> tuple[Tensor, ...]:
    return (table[index] * 2,)


def table_on(device: str) -> Tensor:
    return torch.randn(ROWS, 16, device=device)


def compiled(device: str, **options: Any) -> tuple[Any, Tensor, Tensor]:
    table, index = table_on(device), torch.arange(5, device=device)
    return executable(some_of, table, index, device=device, **options), table, index


def called(run: Any, table: Tensor, index: Tensor, calls: int = WORTH + 8) -> list[str]:
    """Calls with new values in the same memory, compared with eager; gives the kinds of the inputs after them."""
    for _ in range(calls):
        table.normal_()
        torch.testing.assert_close(run(table, index)[0], table[index] * 2)
    kinds: list[str] = run.explain()["keys"][0]["kinds"]
    return kinds


def test_N25_a_large_input_that_stays_is_bound_and_one_that_moves_is_copied_again(device: str) -> None:
    run, table, index = compiled(device)
    assert called(run, table, index) == ["bound", "copied"]
    assert called(run, table_on(device), index, 4 * WORTH) == ["copied", "copied"]
    assert run.stats()["recaptures"] == {"stable input bound": 1, "bound input moved": 1}
    assert sum("its address moves" in line for line in run.explain()["history"]) == 1


def test_a_large_input_that_moves_in_the_first_calls_alone_is_bound(device: str) -> None:
    run, _, index = compiled(device)
    kept = [table_on(device) for _ in range(MOVES_ALLOWED + 1)]
    for table in kept:
        called(run, table, index, 2)
    assert called(run, kept[-1], index) == ["bound", "copied"]


def test_a_large_input_that_is_made_for_each_call_is_copied_although_its_address_is_the_same(
    device: str,
) -> None:
    run, _, index = compiled(device)
    addresses = set()
    for _ in range(4 * WORTH):
        table = table_on(device)
        addresses.add(table.data_ptr())
        torch.testing.assert_close(run(table, index)[0], table[index] * 2)
        del table
    assert len(addresses) < 4 * WORTH
    assert run.stats()["captures"] == 1


def test_what_has_the_address_of_a_bound_input_is_read(device: str) -> None:
    run, table, index = compiled(device)
    called(run, table, index)
    same = table.view(-1)[:].view(ROWS, 16)
    del table
    assert called(run, same, index) == ["bound", "copied"]
    same.untyped_storage().resize_(0)
    same.untyped_storage().resize_(4 * 16 * ROWS)
    called(run, same, index)


@pytest.mark.parametrize(
    "option", [{"air__adaptive_slots": 0}, {"debug__aclgraph__unsafe_skip_npugraph_capture_validation": True}]
)
def test_large_inputs_are_not_bound_where_that_is_not_wanted_or_could_not_be_checked(
    device: str, option: dict[str, object]
) -> None:
    run, table, index = compiled(device, **option)
    assert called(run, table, index) == ["copied", "copied"]
    assert run.stats()["captures"] == 1


@pytest.mark.parametrize("outputs", ["kept", "clone", "view"])
@pytest.mark.parametrize("calls", [1, WORTH - 1, WORTH + 8])
def test_a_pinned_call_takes_a_large_input_wherever_it_lies(device: str, calls: int, outputs: str) -> None:
    run, table, index = compiled(device, air__outputs=outputs)
    called(run, table, index, calls)
    pinned = run.pin(table, index)
    assert pinned.places == (0, 1)
    other = table_on(device)
    torch.testing.assert_close(pinned(other, index)[0], other[index] * 2)
    assert called(run, table, index) == ["copied", "copied"]
    torch.testing.assert_close(pinned(other, index)[0], other[index] * 2)


def test_large_inputs_that_move_one_after_the_other_cost_a_bounded_number_of_captures(device: str) -> None:
    def summed(*tables: Tensor) -> tuple[Tensor, ...]:
        return (torch.stack([table[0] for table in tables]).sum(0),)

    tables = [table_on(device) for _ in range(6)]
    run = executable(summed, *tables, device=device)
    for place in range(6):
        for _ in range(WORTH + 8):
            torch.testing.assert_close(run(*tables)[0], summed(*tables)[0])
        tables[place] = table_on(device)
    assert run.explain()["keys"][0]["kinds"] == ["copied"] * 6
    assert run.stats()["captures"] == 2 + LARGE_MOVES_ALLOWED


def test_memory_that_a_capture_lends_is_not_bound_by_another_and_lent_for_good(device: str) -> None:
    def doubled(x: Tensor) -> tuple[Tensor, ...]:
        return (x * 2,)

    run, table, index = compiled(device)
    first = executable(doubled, table, device=device)
    for _ in range(3 * WORTH):
        table.normal_()
        torch.testing.assert_close(run(first(table)[0], index)[0], table[index] * 4)
    assert first.explain()["keys"][0]["outputs"] == "lent"
    assert first.stats()["recaptures"] == {"stable input bound": 1}
    assert run.explain()["keys"][0]["kinds"] == ["copied", "copied"]


@pytest.mark.parametrize("outputs", ["view", "guarded", "clone"])
def test_memory_that_the_next_replay_may_write_is_not_bound(device: str, outputs: str) -> None:
    def doubled(x: Tensor) -> tuple[Tensor, ...]:
        return (x * 2,)

    run, table, index = compiled(device, air__outputs=outputs)
    first = executable(doubled, table, device=device, air__outputs=outputs)
    for _ in range(3 * WORTH):
        table.normal_()
        torch.testing.assert_close(run(first(table)[0], index)[0], table[index] * 4)
    assert run.explain()["keys"][0]["kinds"] == ["copied", "copied"]


def test_the_buffer_of_an_input_is_given_back_when_it_is_bound(device: str) -> None:
    run, table, index = compiled(device)
    called(run, table, index, 2)
    before = run.nbytes
    called(run, table, index)
    assert run.nbytes <= before - table.nbytes


def of_any_size(device: str, **options: Any) -> tuple[Callable[..., None], Backend]:
    """Calls, often enough for an input to be bound, a function that has a key for each number of rows."""
    backend = Backend(device, **options)
    run, index = torch.compile(some_of, backend=backend, dynamic=True), torch.arange(5, device=device)

    def call(table: Tensor, calls: int = WORTH + 8) -> None:
        for _ in range(calls):
            table.normal_()
            torch.testing.assert_close(run(table, index)[0], table[index] * 2)

    return call, backend


def test_memory_that_callers_let_go_of_is_given_back_when_another_size_is_captured(device: str) -> None:
    call, backend = of_any_size(device)
    call(torch.randn(2 * ROWS, 16, device=device))
    gc.collect()  # compiling leaves cycles that have the inputs of its call
    memory = []
    for rows in range(ROWS + 6, ROWS, -1):
        table = torch.randn(rows, 16, device=device)
        call(table)
        memory.append(StorageWeakRef(table.untyped_storage()))
        del table
    assert [storage.expired() for storage in memory] == [True] * 5 + [False]
    assert sum("have let go of" in line for line in backend.only.explain()["history"]) == 6
    for _ in range(2):
        call(torch.randn(ROWS + 6, 16, device=device))
    assert "bound" not in backend.only.explain()["keys"][-1]["kinds"]
    assert backend.only.stats()["captures"] == 2 * 7 + 1


def test_sizes_whose_input_is_copied_again_share_a_buffer(device: str) -> None:
    call, backend = of_any_size(device)
    tables = [torch.randn(ROWS + rows, 16, device=device) for rows in range(4, 0, -1)]
    for table in tables[:2]:
        call(table)
    for table, bound in zip(tables[:2], tables[2:], strict=True):
        call(table.clone())
        call(bound)
    run = backend.only
    kinds = [key["kinds"] for key in run.explain()["keys"]]
    assert sum("bound" in each for each in kinds) == 2
    buffers = {
        value.untyped_storage()._cdata
        for key, of_key in zip(run.keys(), kinds, strict=True)
        for value in run.inputs_of(key)
        if "bound" not in of_key and isinstance(value, Tensor) and value.dim() == 2
    }
    assert len(buffers) == 1


def test_a_small_part_of_a_storage_is_copied_and_the_storage_given_back_when_its_owner_is_gone(
    device: str,
) -> None:
    run, _, index = compiled(device)
    memory = torch.randn((PARTS_ALLOWED + 1) * ROWS, 16, device=device)
    assert called(run, memory[:ROWS], index) == ["copied", "copied"]
    owner = StorageWeakRef(memory.untyped_storage())
    del memory
    gc.collect()
    assert owner.expired()


def test_many_parts_of_a_storage_are_bound(device: str) -> None:
    def summed(*parts: Tensor) -> tuple[Tensor, ...]:
        return (torch.stack([part[0] for part in parts]).sum(0),)

    memory = torch.randn((PARTS_ALLOWED + 1) * ROWS, 16, device=device)
    parts = memory.view(-1, ROWS, 16).unbind()
    run = executable(summed, *parts, device=device)
    for _ in range(WORTH + 8):
        memory.normal_()
        torch.testing.assert_close(run(*parts)[0], summed(*parts)[0])
    assert run.explain()["keys"][0]["kinds"] == ["bound"] * len(parts)


def test_what_was_seen_of_the_inputs_of_a_size_goes_with_its_capture(device: str) -> None:
    call, backend = of_any_size(device, debug__aclgraph__static_capture_size_limit=1)
    for rows in range(1, 5):
        call(torch.randn(ROWS + rows, 16, device=device), 2)
    assert len(backend.only._making.watches._large) == 1


def test_inputs_that_share_memory_with_what_the_graph_writes_are_as_in_eager(device: str) -> None:
    def written(cache: Tensor, table: Tensor) -> Tensor:
        cache.add_(1)
        return table[:3] * 2

    for together in (False, True):
        torch._dynamo.reset()
        run = torch.compile(written, backend=Backend(device))
        table, twin = table_on(device), table_on(device)
        twin.copy_(table)
        for _ in range(3 * WORTH):
            cache = table[1:4] if together else torch.zeros(3, 16, device=device)
            again = twin[1:4] if together else torch.zeros(3, 16, device=device)
            torch.testing.assert_close(run(cache, table), written(again, twin))
            torch.testing.assert_close(table, twin)


def test_a_training_step_gives_its_large_input_the_gradient_of_eager(device: str) -> None:
    backend = Backend(device)
    run = torch.compile(lambda table, index: (table[index] * table[index]).sum(), backend=backend)
    table, index = table_on(device).requires_grad_(), torch.arange(5, device=device)
    for _ in range(3 * WORTH):
        with torch.no_grad():
            table.normal_()
        (given,) = torch.autograd.grad(run(table, index), table)
        (wanted,) = torch.autograd.grad((table[index] * table[index]).sum(), table)
        torch.testing.assert_close(given, wanted)


@pytest.mark.parametrize("slots", [None, 3])
def test_an_input_on_the_host_is_staged_in_each_call_however_long_it_stays(
    accelerator: str, slots: int | None
) -> None:
    def moved(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return (x.to(y.device) + y,)

    x, y = torch.randn(ROWS, 16), table_on(accelerator)
    run = executable(moved, x, y, device=accelerator, air__adaptive_slots=slots)
    for _ in range(3 * WORTH):
        x.normal_()
        torch.testing.assert_close(run(x, y)[0], moved(x, y)[0])
    assert run.explain()["keys"][0]["kinds"] == ["copied", "bound"]


def test_an_input_whose_whole_storage_is_addressed_is_bound_and_read_at_its_place(device: str) -> None:
    def strided(x: Tensor) -> Tensor:
        return x.as_strided((4, 4), (16, 1), 3) * x.sum()

    backend = Backend(device)
    run = torch.compile(strided, backend=backend)
    memory = torch.randn(ROWS + 64, 16, device=device)
    for first in (0, 32, 0):
        for _ in range(WORTH + 8):
            memory.normal_()
            x = memory[first : first + 4]
            torch.testing.assert_close(run(x), strided(x), rtol=1e-4, atol=1e-4)
    assert [key["kinds"] for key in backend.only.explain()["keys"]] == [["bound"]] * 2
    other = torch.randn(ROWS + 64, 16, device=device)[:4]
    for _ in range(WORTH + 8):
        torch.testing.assert_close(run(other), strided(other), rtol=1e-4, atol=1e-4)
    assert backend.only.stats()["recaptures"] == {"stable input bound": 2, "bound input moved": 1}


def test_a_tensor_is_as_large_as_the_memory_that_it_reaches(device: str) -> None:
    tensors = [table_on(device), torch.zeros(1, 16).expand(ROWS, 16), torch.zeros(0, 16)]
    assert large(dict(enumerate(tensors))) == {0: LARGE}


def test_an_input_that_moves_all_the_time_is_watched_no_more() -> None:
    tensors, stays = [torch.zeros(1) for _ in range(MOVES_ALLOWED + 2)], Stays({0: 4}, 100)
    assert [stays([tensor]) for tensor in tensors] == [False] * (MOVES_ALLOWED + 1) + [True]
    assert stays.stable() == []
