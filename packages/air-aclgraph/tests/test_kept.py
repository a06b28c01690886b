"""Outputs that a caller keeps stay what they were, in every way there is to keep them, and cost no copy otherwise."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from aclgraph_backend import Backend, executable
from air_aclgraph import Executable, _captured
from air_aclgraph._kept import GIVE_UP_AFTER, LEND_AFTER

LENT_AT = LEND_AFTER + 2  # the first call captures, the next ones are watched


@pytest.fixture(autouse=True, params=["builtin", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything holds with the builtin that replays a key, and with the function in Python that it stands in for."""
    if request.param == "python":
        monkeypatch.setattr(_captured, "in_one_builtin", lambda captured, careful: careful)


def doubled(x: Tensor) -> tuple[Tensor, ...]:
    return (x * 2,)


def pieces(x: Tensor) -> tuple[Any, ...]:
    z = x + 1
    return z, z[1:], z.t(), x, x[1:], 7


def full(value: float, device: str) -> Tensor:
    return torch.full((3, 4), float(value), device=device)


def lent(function: Callable[..., Any], device: str, **options: Any) -> Executable:
    """A graph whose outputs are lent, since nobody kept one."""
    run = executable(function, full(0, device), device=device, **options)
    for value in range(LENT_AT):
        run(full(value, device))
    assert run.explain()["keys"][0]["outputs"] == "lent"
    return run


def fresh(function: Callable[..., Any], device: str, **options: Any) -> Executable:
    return executable(function, full(0, device), device=device, **options)


MAKERS = (fresh, lent)


def value_of(thing: Any) -> float:
    """The one value that all elements have."""
    flat = torch.as_tensor(thing).reshape(-1)
    assert bool((flat == flat[0]).all())
    return float(flat[0])


#: Ways to keep an output without keeping the tensor that was returned.
WAYS: dict[str, Callable[[Tensor], Any]] = {
    "the tensor": lambda t: t,
    "a view": lambda t: t[1:, ::2],
    "a detached alias": lambda t: t.detach(),
    "its data": lambda t: t.data,
    "an alias of another dtype": lambda t: t.view(torch.int32).view(torch.float32),
    "a parameter": lambda t: torch.nn.Parameter(t),
    "a part of a list of views": lambda t: list(t.unbind(0)),
    "a closure": lambda t: lambda: t,
}
HOST_WAYS: dict[str, Callable[[Tensor], Any]] = {
    "an array": lambda t: t.numpy(),
    "a view of an array": lambda t: t.numpy()[1:],
    "a memoryview": lambda t: memoryview(t.numpy()),  # type: ignore[arg-type]  # an array is a buffer
    "a capsule of dlpack": lambda t: torch.utils.dlpack.to_dlpack(t),  # type: ignore[attr-defined]  # re-exported
    "an array of dlpack": lambda t: __import__("numpy").from_dlpack(t),
    "shared memory": lambda t: t.share_memory_(),
}


def looked_at(kept: Any) -> float:
    if callable(kept):
        kept = kept()
    if isinstance(kept, list):
        kept = torch.stack(kept)
    if type(kept).__name__ == "PyCapsule":
        kept = torch.utils.dlpack.from_dlpack(kept)
    if isinstance(kept, memoryview):
        kept = torch.frombuffer(kept, dtype=torch.float32)
    return value_of(kept.detach() if isinstance(kept, Tensor) else kept)


@pytest.mark.parametrize("made", MAKERS)
@pytest.mark.parametrize("way", WAYS)
def test_an_output_that_is_kept_stays_what_it_was(way: str, made: Any, device: str) -> None:
    run = made(doubled, device)
    kept = [WAYS[way](run(full(value, device))[0]) for value in range(12)]
    assert [looked_at(one) for one in kept] == [2.0 * value for value in range(12)]


@pytest.mark.parametrize("made", MAKERS)
@pytest.mark.parametrize("way", HOST_WAYS)
def test_memory_that_something_else_has_stays_what_it_was(way: str, made: Any) -> None:
    run = made(doubled, "cpu")
    kept = [HOST_WAYS[way](run(full(value, "cpu"))[0]) for value in range(12)]
    assert [looked_at(one) for one in kept] == [2.0 * value for value in range(12)]


@pytest.mark.parametrize("made", MAKERS)
def test_a_storage_that_is_kept_stays_what_it_was(made: Any, device: str) -> None:
    run = made(doubled, device)
    storages = [run(full(value, device))[0].untyped_storage() for value in range(12)]
    empty = torch.empty(0, device=device)
    values = [value_of(empty.new_empty(0).set_(s, 0, (12,), (1,))) for s in storages]
    assert values == [2.0 * value for value in range(12)]


@pytest.mark.parametrize("held_for", range(3))
@pytest.mark.parametrize("made", MAKERS)
def test_a_name_in_a_loop_keeps_the_last_outputs(made: Any, held_for: int, device: str) -> None:
    run = made(doubled, device)
    last: list[tuple[int, Tensor]] = []
    for value in range(30):
        for before, output in last:
            assert value_of(output) == 2.0 * before
        last = [*last, (value, run(full(value, device))[0])][-1 - held_for :]


@pytest.mark.parametrize("made", MAKERS)
def test_an_output_that_is_fed_back_is_read_before_it_is_written(made: Any, device: str) -> None:
    run = made(doubled, device)
    x = full(1, device)
    for step in range(1, 20):
        (x,) = run(x)
        assert value_of(x) == 2.0**step


@pytest.mark.parametrize("made", MAKERS)
def test_what_shares_memory_with_what_is_the_same_in_every_call(made: Any, device: str) -> None:
    run = made(pieces, device)
    kept = []
    for value in range(12):
        x = full(value, device)
        whole, rest, turned, same, view, seven = run(x)
        assert same is x
        assert seven == 7
        assert view.data_ptr() == x[1:].data_ptr()
        assert (rest.storage_offset(), turned.stride()) == (4, (1, 4))
        whole[1, 0] = -1
        assert rest[0, 0] == -1
        assert turned[0, 1] == -1
        if value % 3 == 0:
            kept.append((value, whole, rest, turned))
    for value, whole, rest, turned in kept:
        assert whole.tolist() == [[value + 1.0] * 4, [-1.0, *[value + 1.0] * 3], [value + 1.0] * 4]
        assert rest.tolist() == whole[1:].tolist()
        assert turned.tolist() == whole.t().tolist()


def test_one_of_several_outputs_is_enough_to_keep_a_call(device: str) -> None:
    run = lent(lambda x: (x * 2, x * 3), device)
    kept = [run(full(value, device))[1] for value in range(6)]
    assert [value_of(one) for one in kept] == [3.0 * value for value in range(6)]


def test_another_key_and_another_graph_leave_kept_outputs_alone(device: str) -> None:
    def long(x: Tensor) -> tuple[Tensor, ...]:
        for _ in range(4):
            x = (x + 1).relu() * 2
        return (x,)

    runs = [executable(long, torch.ones(3, 4, device=device), device=device, dynamic=True) for _ in range(2)]
    expected = long(torch.ones(3, 4))[0][0, 0].item()
    for run in runs:
        for rows in (3, 5):
            for _ in range(LENT_AT):
                run(torch.ones(rows, 4, device=device))
    kept = []
    for _ in range(3):
        for run in runs:
            for rows in (3, 5, 7):
                kept.append(run(torch.ones(rows, 4, device=device))[0])
                run(torch.zeros(rows, 4, device=device))
    assert {value_of(one) for one in kept} == {expected}


def test_outputs_outlive_their_graph(device: str) -> None:
    run = lent(doubled, device)
    (kept,) = run(full(4, device))
    run.invalidate()
    run(full(5, device))
    run.close()
    del run
    other = lent(doubled, device)
    other(full(6, device))
    assert value_of(kept) == 8.0


def test_a_capture_whose_memory_was_lent_is_written_no_more(device: str) -> None:
    run = lent(doubled, device)
    (kept,) = run(full(1, device))
    address = kept.data_ptr()
    later = [run(full(value, device))[0] for value in range(2, 6)]
    assert address not in [one.data_ptr() for one in later]
    assert value_of(kept) == 2.0
    stats = run.stats()
    assert stats["recaptures"] == {"lent output kept": 1}
    assert stats["captures"] == 2, "one more capture, whatever is kept from then on"
    assert "one was kept across calls" in run.explain()["history"][-1]


def test_outputs_that_were_kept_from_the_start_cost_no_capture(device: str) -> None:
    run = fresh(doubled, device)
    kept = [run(full(value, device)) for value in range(2 * GIVE_UP_AFTER)]
    assert run.stats()["captures"] == 1
    assert run.explain()["keys"][0]["outputs"] == "copied"
    assert [value_of(one[0]) for one in kept] == [2.0 * value for value in range(2 * GIVE_UP_AFTER)]


def test_every_call_returns_tensors_of_its_own(device: str) -> None:
    run = lent(doubled, device)
    (first,) = run(full(1, device))
    gone = weakref.ref(first)
    first.note = "mine"
    first.t_()
    first.requires_grad_()
    del first
    assert gone() is None
    (second,) = run(full(2, device))
    assert second.shape == (3, 4)
    assert not hasattr(second, "note")
    assert not second.requires_grad
    assert second._version == 0


def test_a_storage_that_its_owner_made_larger_is_written_no_more(device: str) -> None:
    run = lent(doubled, device)
    run(full(1, device))[0].resize_(100, 100)
    run(full(2, device))
    (third,) = run(full(3, device))
    assert value_of(third) == 6.0
    assert run.stats()["recaptures"] == {"lent output kept": 1}


def test_an_output_that_another_thread_keeps_stays_what_it_was(device: str) -> None:
    run = lent(doubled, device)
    kept: dict[int, Tensor] = {}
    problems: list[str] = []

    def work(number: int) -> None:
        for step in range(40):
            value = 100 * number + step
            (output,) = run(full(value, device))
            if step % 7 == 0:
                kept[value] = output
            if output.flatten()[0].item() != 2.0 * value:
                problems.append(f"call {value}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert all(value_of(output) == 2.0 * value for value, output in kept.items())


def test_what_a_pinned_handle_writes_is_nothing_that_a_caller_keeps(device: str) -> None:
    run = lent(doubled, device)
    (kept,) = run(full(1, device))
    handle = run.pin(full(2, device))
    later = [run(full(3, device))[0], handle(full(4, device))[0].clone(), run(full(5, device))[0]]
    handle(full(6, device))
    assert [value_of(one) for one in (kept, *later)] == [2.0, 6.0, 8.0, 10.0]


def test_a_pinned_handle_gives_the_memory_of_the_capture(device: str) -> None:
    run = fresh(doubled, device)
    handle = run.pin(full(1, device))
    first, second = handle(full(2, device))[0], handle(full(3, device))[0]
    assert first.data_ptr() == second.data_ptr()
    for value in range(3 * LENT_AT):
        run(full(value, device))
    assert value_of(handle(full(7, device))[0]) == 14.0, (
        "the capture that was pinned is still the one of its key"
    )


def gradients(device: str) -> tuple[Tensor, list[Tensor], Callable[..., Any]]:
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(4, 4, device=device))
    inputs = [torch.randn(3, 4, device=device) for _ in range(12)]

    def loss(x: Tensor) -> Tensor:
        return (x @ weight).tanh().square().sum()

    return weight, inputs, loss


def assert_all_close(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_N25_gradients_that_are_kept_stay_what_they_were(device: str) -> None:
    weight, inputs, loss = gradients(device)
    expected = [torch.autograd.grad(loss(x), [weight])[0] for x in inputs]
    compiled = torch.compile(loss, backend=Backend(device))
    assert_all_close([torch.autograd.grad(compiled(x), [weight])[0] for x in inputs], expected)


def test_N25_gradients_that_a_hook_keeps_stay_what_they_were(device: str) -> None:
    weight, inputs, loss = gradients(device)
    expected = [torch.autograd.grad(loss(x), [weight])[0] for x in inputs]
    kept: list[Tensor] = []
    handle = weight.register_hook(kept.append)
    compiled = torch.compile(loss, backend=Backend(device))
    for x in inputs:
        weight.grad = None
        compiled(x).backward()
    handle.remove()
    assert_all_close(kept, expected)


def grad_of(weight: Tensor) -> Tensor:
    assert weight.grad is not None
    return weight.grad


@pytest.mark.parametrize("every", [1, 2, 5, 100])
def test_N25_a_gradient_that_is_kept_or_added_to_stays_right(every: int, device: str) -> None:
    weight, inputs, loss = gradients(device)
    compiled = torch.compile(loss, backend=Backend(device))

    def trained(function: Callable[..., Any]) -> list[Tensor]:
        weight.grad = None
        seen: list[Tensor] = []
        for number, x in enumerate(inputs):
            if number % every == 0:
                weight.grad = None
            function(x).backward()
            seen.append(grad_of(weight))
        weight.grad = None
        return seen

    assert_all_close(trained(compiled), trained(loss))


def test_gradients_that_nobody_keeps_are_lent(device: str) -> None:
    weight, inputs, loss = gradients(device)
    backend = Backend(device)
    compiled = torch.compile(loss, backend=backend)
    for x in inputs:
        compiled(x).backward()
        weight.grad = None
    backward = backend.executables[1].explain()["keys"][0]
    assert backward["outputs"] == "lent"


def test_activations_of_several_forwards_wait_for_their_backwards(device: str) -> None:
    weight, inputs, loss = gradients(device)
    compiled = torch.compile(loss, backend=Backend(device))
    expected = [torch.autograd.grad(loss(x), [weight])[0] for x in inputs]
    for _ in range(LENT_AT):  # one after the other: activations are gone at each forward
        torch.autograd.grad(compiled(inputs[0]), [weight])
    losses = [compiled(x) for x in inputs]
    found = [torch.autograd.grad(each, [weight])[0] for each in losses]
    assert_all_close(found, expected)
