"""Operators that write what their schema says they read."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from aclgraph_backend import Backend
from air_aclgraph._slots import Kind
from air_fxpasses import npu_ops
from air_fxpasses.npu_ops.samples import samples
from air_graph import _effects, register_hidden_writes
from air_graph.testing.strictness import results_that_are_arguments


@pytest.fixture
def aliases_allowed() -> Iterator[None]:
    """The kernel gives its caches back."""
    with results_that_are_arguments(refused=False):
        yield


@pytest.fixture
def keep(device: str) -> Iterator[torch._ops.OpOverload]:
    """An operator that writes its second argument and says nothing about it."""

    def write(x: Tensor, cache: Tensor) -> Tensor:
        cache.add_(x)
        return x * 2

    with torch.library._scoped_library("air_hidden", "DEF") as library:
        library.define("keep(Tensor x, Tensor cache) -> Tensor")
        library.impl("keep", write, "CompositeExplicitAutograd")
        library.impl("keep", lambda x, cache: torch.empty_like(x), "Meta")
        register_hidden_writes("air_hidden::keep", ("cache",))
        yield torch.ops.air_hidden.keep.default
        _effects._hidden_writes.pop("air_hidden::keep.default")
        _effects.effects_of.cache_clear()


def test_the_memory_it_writes_is_the_callers_own(keep: torch._ops.OpOverload, device: str) -> None:
    backend = Backend(device)

    @torch.compile(backend=backend)
    def step(x: Tensor, cache: Tensor) -> Tensor:
        kept: Tensor = keep(x, cache[1])
        return kept + 1

    cache = torch.zeros(2, 3, device=device)
    for value in (1.0, 2.0, 4.0):
        x = torch.full((3,), value, device=device)
        assert torch.equal(step(x, cache), x * 2 + 1)
    assert cache.tolist() == [[0.0] * 3, [7.0] * 3]
    kinds = {slot.name: slot.kind for slot in backend.only.slots}
    assert list(kinds.values()).count(Kind.MUTATED) == 1


@pytest.mark.usefixtures("aliases_allowed")
@pytest.mark.filterwarnings("ignore:.*custom operator")
def test_a_cache_operator_of_the_npu_fills_the_callers_caches() -> None:
    """`npu_kv_rmsnorm_rope_cache` with caches as ordinary inputs left them at zero: its schema marks no write."""
    if hasattr(torch, "npu"):
        pytest.skip("the reference kernels are declared where torch_npu is not")
    npu_ops.declare()
    op = torch.ops.npu.npu_kv_rmsnorm_rope_cache.default
    sample = next(s for s in samples() if s.operator == "npu_kv_rmsnorm_rope_cache")
    k_cache, ckv_cache = (i for i, a in enumerate(op._schema.arguments) if a.name in ("k_cache", "ckv_cache"))
    compiled = torch.compile(lambda *args: op(*args, **sample.kwargs), backend=Backend())
    expected, found = list(sample.args), copy.deepcopy(list(sample.args))
    for scale in (1.0, 2.0, 3.0):
        expected[0], found[0] = sample.args[0] * scale, sample.args[0] * scale
        want, got = op(*expected, **sample.kwargs), compiled(*found)
        for ours, theirs in zip(got, want, strict=True):
            torch.testing.assert_close(ours, theirs)
        for index in (k_cache, ckv_cache):
            assert found[index].any()
            torch.testing.assert_close(found[index], expected[index])
