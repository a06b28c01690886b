"""With `air.adopt_inputs` a new cache takes over the memory of the capture, where nobody would notice."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from aclgraph_backend import Backend, executable
from moved_caches import doubled, requests_of_two_graphs, step


def compiled(device: str, function: Callable[..., Any] = step, *, adopt: bool = True) -> Any:
    examples = torch.zeros(4, device=device), torch.ones(4, device=device)
    return executable(function, *examples, device=device, air__adopt_inputs=adopt)


def request(run: Any, cache: Tensor, calls: int = 3) -> Tensor:
    """Calls with a cache as one request makes them, each compared with eager; gives the cache."""
    twin = cache.detach().clone()
    for number in range(calls):
        x = torch.full_like(twin, float(number))
        torch.testing.assert_close(run(cache, x)[0], step(twin, x)[0])
        torch.testing.assert_close(cache.detach(), twin)
    return cache


def first_request(run: Any, device: str) -> int:
    """Has the step captured; gives the address of a cache that nobody has any more."""
    return request(run, torch.zeros(4, device=device)).data_ptr()


def test_N25_a_new_cache_takes_over_the_memory_of_the_capture_and_is_not_copied(device: str) -> None:
    run = compiled(device)
    captured_at = first_request(run, device)
    for _ in range(4):
        cache = request(run, torch.ones(4, device=device))
        assert cache.data_ptr() == captured_at
        del cache
    stats = run.stats()
    assert (stats["captures"], stats["adopted_inputs"], stats["recaptures"]) == (1, 4, {})
    assert stats["copies"] == stats["replays"], "the number of each call alone"
    (key,) = run.explain()["keys"]
    assert key["kinds"] == ["mutated", "copied"]
    (line,) = [line for line in run.explain()["history"] if "takes over" in line]
    assert "input 0" in line


def test_it_is_asked_for_and_the_copies_without_it_name_it(device: str) -> None:
    run = compiled(device, adopt=False)
    first_request(run, device)
    cache = torch.ones(4, device=device)
    before = cache.data_ptr()
    request(run, cache)
    assert cache.data_ptr() == before
    assert run.stats()["adopted_inputs"] == 0
    assert any("air.adopt_inputs spares the copies" in line for line in run.explain()["history"])


def read(held: Any) -> list[float]:
    found: list[float] = held.tolist()
    return found


HOLDERS: dict[str, Callable[[Tensor], Any]] = {
    "a view": lambda cache: cache[:],
    "a detached tensor": Tensor.detach,
    "a storage": lambda cache: torch.empty(0, device=cache.device).set_(cache.untyped_storage()),
    "another library": from_dlpack,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_cache_that_somebody_looks_at_stays_where_it_is(device: str, holder: str) -> None:
    if holder == "another library" and device == "npu":
        pytest.skip("torch_npu hands no memory to other libraries")
    run = compiled(device)
    first_request(run, device)
    cache = torch.ones(4, device=device)
    held = HOLDERS[holder](cache)
    request(run, cache)
    assert read(held) == cache.tolist() == [4.0] * 4
    assert run.stats()["adopted_inputs"] == 0


def test_memory_that_torch_did_not_make_stays_with_its_owner() -> None:
    numpy = pytest.importorskip("numpy")
    run = compiled("cpu")
    first_request(run, "cpu")
    array = numpy.ones(4, dtype=numpy.float32)
    request(run, torch.from_numpy(array))
    shared = torch.ones(4).share_memory_()
    request(run, shared)
    assert array.tolist() == [4.0] * 4
    assert run.stats()["adopted_inputs"] == 0


def test_a_capsule_of_another_library_keeps_its_memory() -> None:
    run = compiled("cpu")
    first_request(run, "cpu")
    cache = torch.ones(4)
    capsule = cache.__dlpack__()
    request(run, cache)
    assert from_dlpack(capsule).tolist() == [4.0] * 4
    assert run.stats()["adopted_inputs"] == 0


def test_what_is_saved_for_gradients_stays_where_it_is(device: str) -> None:
    run = compiled(device)
    first_request(run, device)
    cache, weight = torch.full((4,), 3.0, device=device), torch.ones(4, device=device, requires_grad=True)
    saved = (cache * weight).grad_fn
    before = cache.data_ptr()
    request(run, cache)
    assert cache.data_ptr() == before
    assert saved is not None
    assert run.stats()["adopted_inputs"] == 0


def test_caches_in_turn_are_captured_again_and_none_is_written_for_the_other(device: str) -> None:
    run = compiled(device)
    first = request(run, torch.zeros(4, device=device))
    second = request(run, torch.ones(4, device=device))
    assert (first.tolist(), second.tolist()) == ([3.0] * 4, [4.0] * 4)
    assert run.stats()["adopted_inputs"] == 0


def test_one_tensor_for_two_inputs_stays_where_it_is(device: str) -> None:
    def both(one: Tensor, other: Tensor) -> tuple[Tensor]:
        one.add_(1)
        other.mul_(2)
        return (one + other,)

    run = compiled(device, both)
    run(torch.ones(4, device=device), torch.ones(4, device=device))
    for _ in range(3):
        tensor = torch.ones(4, device=device)
        assert run(tensor, tensor)[0].tolist() == [8.0] * 4
        assert tensor.tolist() == [4.0] * 4


def test_two_graphs_over_one_cache_move_it_once(device: str) -> None:
    runs = [compiled(device), compiled(device, doubled)]
    requests_of_two_graphs(device, *runs)
    assert [run.stats()["captures"] for run in runs] == [1, 1]
    assert [run.stats()["adopted_inputs"] for run in runs] == [3, 0]


def test_memory_that_another_capture_writes_stays_with_it(device: str) -> None:
    x = torch.ones(4, device=device)
    maker = executable(lambda x: (x * 2,), x, device=device, air__outputs="view")
    maker(x)  # what the run before a capture gives is the caller's own
    run = compiled(device)
    first_request(run, device)
    for factor in (1.0, 2.0, 3.0):
        (made,) = maker(x * factor)
        assert made.tolist() == [2 * factor] * 4
        run(made, x)
        assert made.tolist() == [2 * factor + 1] * 4
    assert run.stats()["adopted_inputs"] == 0


def test_a_compiled_function_moves_the_caches_of_its_callers() -> None:
    backend = Backend(air__adopt_inputs=True)
    run = torch.compile(lambda cache, x: cache.add_(x).sum(), backend=backend)
    for _ in range(4):
        cache = torch.zeros(4)
        for count in (4.0, 8.0):
            assert run(cache, torch.ones(4)).item() == count
        assert cache.tolist() == [2.0] * 4
    assert backend.only.stats()["captures"] == 1
    assert backend.only.stats()["adopted_inputs"] == 3


def two_caches(one: Tensor, other: Tensor, x: Tensor) -> tuple[Tensor, ...]:
    one[1:2].copy_(x[:1])
    other.mul_(2).add_(x)
    return one.sum(0), other[1:], x + one[0], other


class Requests:
    """Caches of requests, some of them kept, some looked at from elsewhere; each has a twin that eager writes."""

    def __init__(self, chance: random.Random, device: str) -> None:
        self.chance, self.device = chance, device
        self.pairs: list[tuple[Tensor, Tensor]] = []
        """Caches and twins that are still there, and what looks at them."""

    def cache(self) -> tuple[Tensor, Tensor]:
        """A cache and its twin: an old one, a part of more memory, or a new one."""
        source = self.chance.randrange(6)
        old = [pair for pair in self.pairs if pair[0].shape == (3, 4)]
        if source == 0 and old:
            return self.chance.choice(old)
        whole, twin = (torch.full((5, 4), float(source), device=self.device) for _ in range(2))
        if source == 1:
            return whole[1:4], twin[1:4]
        return whole[:3].clone(), twin[:3].clone()

    def keep(self, cache: Tensor, twin: Tensor) -> None:
        look = self.chance.choice([lambda t: t, lambda t: t[1:], Tensor.detach, Tensor.t])
        self.pairs.append((look(cache), look(twin)))

    def forget(self) -> None:
        self.chance.shuffle(self.pairs)
        del self.pairs[self.chance.randrange(3) :]


def check_requests(device: str, numbers: range) -> int:
    """Random requests against eager; how many inputs took memory over."""
    taken = 0
    for number in numbers:
        chance = random.Random(number)
        requests = Requests(chance, device)
        examples = (torch.ones(3, 4, device=device) for _ in range(3))
        outputs = chance.choice(["kept", "view", "clone"])
        run = executable(two_caches, *examples, device=device, air__adopt_inputs=True, air__outputs=outputs)
        for _ in range(chance.randrange(3, 8)):
            (one, twin), (other, other_twin) = requests.cache(), requests.cache()
            for _ in range(chance.randrange(1, 4)):
                x = torch.randn(3, 4, device=device)
                found, expected = run(one, other, x), two_caches(twin, other_twin, x)
                torch.testing.assert_close([*found, one, other], [*expected, twin, other_twin])
                assert found[1].data_ptr() == other[1:].data_ptr()
            for pair in ((one, twin), (other, other_twin)):
                if chance.random() < 0.2:
                    requests.keep(*pair)
            del one, other, found, pair
            for kept, expected_of_it in requests.pairs:
                torch.testing.assert_close(kept, expected_of_it, msg=f"sequence {number}")
            requests.forget()
        taken += run.stats()["adopted_inputs"]
        run.close()
    return taken


def test_random_requests_equal_eager(device: str) -> None:
    assert check_requests(device, range(40 if device == "cpu" else 20)) > 10


@pytest.mark.slow
def test_thousands_of_random_requests_equal_eager(device: str) -> None:
    assert check_requests(device, range(40, 4000 if device == "cpu" else 800)) > 100
