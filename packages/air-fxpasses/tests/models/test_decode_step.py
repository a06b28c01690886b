"""S15, S16: a decode step with a KV cache moves the new row, not the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from air_fxpasses import Pipeline, copies, default_passes, register_inplace_twin
from air_fxpasses.tables import unregister_inplace_twin
from air_fxpasses.testing import backend_of, compiled_graph, copied, difference, run_graph

LAYERS, BATCH, HEADS, LENGTH, WIDTH = 2, 1, 2, 64, 8
CACHE_BYTES = BATCH * HEADS * LENGTH * WIDTH * 4


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-1, -2), -1) @ v


def slice_step(x: torch.Tensor, *caches: torch.Tensor) -> torch.Tensor:
    for k, v in zip(caches[::2], caches[1::2], strict=True):
        k[:, :, 5:6] = x
        v[:, :, 5:6] = x * 2
        x = x + attend(x, k, v)
    return x


def index_put_step(x: torch.Tensor, *caches: torch.Tensor) -> torch.Tensor:
    at = torch.tensor([5])
    for k, v in zip(caches[::2], caches[1::2], strict=True):
        k[:, :, at] = x
        v.index_copy_(2, at, x * 2)
        x = x + attend(x, k, v)
    return x


def stacked_step(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    """All layers in one tensor, addressed by two selects and a slice."""
    for layer in range(LAYERS):
        cache[layer, 0, :, :, 5:6] = x
        cache[layer, 1, :, :, 5:6] = x * 2
        x = x + attend(x, cache[layer, 0], cache[layer, 1])
    return x


def caches() -> list[torch.Tensor]:
    return [torch.zeros(BATCH, HEADS, LENGTH, WIDTH) for _ in range(2 * LAYERS)]


STEPS: list[tuple[Callable[..., Any], Callable[[], list[torch.Tensor]]]] = [
    (slice_step, caches),
    (index_put_step, caches),
    (stacked_step, lambda: [torch.zeros(LAYERS, 2, BATCH, HEADS, LENGTH, WIDTH)]),
]


def whole_cache_copies(gm: torch.fx.GraphModule) -> tuple[int, int]:
    """(how many calls copy a cache or more, bytes they move)"""
    found = copies(gm, at_least_bytes=CACHE_BYTES)
    return len(found), sum(c.bytes_moved for c in found)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("step", "make"), STEPS, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("dynamic", [False, True])
def test_S15_no_copy_of_a_whole_cache_is_left(step: Any, make: Any, dynamic: bool) -> None:
    inputs = [torch.ones(BATCH, HEADS, 1, WIDTH), *make()]
    gm = compiled_graph(step, *inputs, dynamic=dynamic)
    before = whole_cache_copies(gm)
    report = Pipeline(default_passes(), verify=True).run(gm)
    after = whole_cache_copies(gm)
    print(
        f"{step.__name__} dynamic={dynamic}: {before[0]} copies, {before[1]} bytes -> {after[0]}, {after[1]} bytes"
    )
    assert before[0] >= 2 * LAYERS
    assert after == (0, 0), report.explain()
    assert not any(s.rolled_back for s in report.steps), report.explain()


@pytest.mark.parametrize(("step", "make"), STEPS, ids=lambda value: getattr(value, "__name__", ""))
def test_S15_the_caches_hold_what_eager_writes(step: Any, make: Any) -> None:
    inputs = [torch.ones(BATCH, HEADS, 1, WIDTH), *make()]
    eager, mine = copied(inputs), copied(inputs)
    torch._dynamo.reset()
    compiled: Any = torch.compile(step, backend=backend_of(Pipeline(default_passes()).run), fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(*mine), step(*eager), rtol=0, atol=0)
    torch.testing.assert_close(mine, eager, rtol=0, atol=0)


def cache_op_(kv: torch.Tensor, k_cache: torch.Tensor, ckv_cache: torch.Tensor, at: torch.Tensor) -> Any:
    k_cache.index_copy_(2, at, kv)
    ckv_cache.index_copy_(2, at, kv * 2)
    return kv.clone(), kv * 2


def cache_op(kv: torch.Tensor, k_cache: torch.Tensor, ckv_cache: torch.Tensor, at: torch.Tensor) -> Any:
    k_cache, ckv_cache = k_cache.clone(), ckv_cache.clone()
    return (*cache_op_(kv, k_cache, ckv_cache, at), k_cache, ckv_cache)


@pytest.fixture
def _cache_operator() -> Iterator[None]:
    """An operator of the shape of `npu_kv_rmsnorm_rope_cache_v2`: two results, two caches written."""
    arguments = "Tensor kv, Tensor{} k_cache, Tensor{} ckv_cache, Tensor at"
    with torch.library._scoped_library("air_test_cache", "FRAGMENT") as library:
        library.define(f"step({arguments.format('', '')}) -> (Tensor, Tensor, Tensor, Tensor)")
        library.define(f"step_({arguments.format('(a!)', '(b!)')}) -> (Tensor, Tensor)")
        library.impl("step", cache_op, "CompositeExplicitAutograd")
        library.impl("step_", cache_op_, "CompositeExplicitAutograd")

        def fake_(kv: torch.Tensor, k: torch.Tensor, c: torch.Tensor, at: torch.Tensor) -> Any:
            return torch.empty_like(kv), torch.empty_like(kv)

        def fake(kv: torch.Tensor, k: torch.Tensor, c: torch.Tensor, at: torch.Tensor) -> Any:
            return (*fake_(kv, k, c, at), torch.empty_like(k), torch.empty_like(c))

        torch.library.register_fake("air_test_cache::step", fake, lib=library)
        torch.library.register_fake("air_test_cache::step_", fake_, lib=library)
        register_inplace_twin("air_test_cache::step", "air_test_cache::step_", (0, 1, "k_cache", "ckv_cache"))
        yield
        unregister_inplace_twin("air_test_cache::step")


@pytest.mark.parametrize("form", ["functional", "in place"])
@pytest.mark.usefixtures("_cache_operator")
def test_S16_an_operator_that_updates_two_caches_copies_neither(form: str) -> None:
    ops = torch.ops.air_test_cache

    def functional(x: torch.Tensor, k: torch.Tensor, c: torch.Tensor) -> Any:
        q, y, new_k, new_c = ops.step(x, k, c, torch.tensor([5]))
        k.copy_(new_k)
        c.copy_(new_c)
        return attend(q, new_k, new_c) + y

    def in_place(x: torch.Tensor, k: torch.Tensor, c: torch.Tensor) -> Any:
        q, y = ops.step_(x, k, c, torch.tensor([5]))
        return attend(q, k, c) + y

    step = functional if form == "functional" else in_place
    inputs = [torch.ones(BATCH, HEADS, 1, WIDTH), *caches()[:2]]
    gm = compiled_graph(step, *inputs)
    eager = run_graph(gm, copied(inputs))
    report = Pipeline(default_passes(), verify=True).run(gm)
    assert whole_cache_copies(gm) == (0, 0), report.explain()
    assert "air_test_cache.step_.default" in [str(n.target) for n in gm.graph.nodes]
    assert difference(eager, run_graph(gm, copied(inputs))) is None
