"""Attention of libatb in captures: its lengths lie on the host, and a replay is patched with the ones of its call."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.utils import counters

pytestmark = [
    pytest.mark.npu("the operators are torch_npu's"),
    pytest.mark.skipif("torch_npu" not in sys.modules, reason="torch_npu is not loaded"),
]

HEADS, KEY_HEADS, SIZE, BLOCK, LAYERS = 4, 2, 16, 8, 3
LENGTHS = ([3, 5], [3, 6], [9, 30], [1, 1], [8, 16])
atb = torch.ops.atb


def caches(heads: int = KEY_HEADS, *sizes: int) -> list[Tensor]:
    torch.manual_seed(0)
    pages = [torch.randn(16, BLOCK, heads, size).half().to("npu") for size in sizes or (SIZE, SIZE)]
    return [*pages, torch.randperm(16)[:8].reshape(2, 4).int().to("npu")]


def paged(q: Tensor, pages: list[Tensor], lengths: Tensor) -> Tensor:
    keys, values, table = pages
    for _ in range(LAYERS):
        out = torch.zeros_like(q)
        atb._npu_paged_attention(q, keys, values, KEY_HEADS, HEADS, 0.25, table, lengths, out)
        q = out + q
    return q


def split(q: Tensor, pages: list[Tensor], lengths: Tensor) -> Tensor:
    keys, values, table = pages
    mask = torch.zeros(2, 32, dtype=q.dtype, device=q.device)
    out = torch.empty_like(q)
    queries = torch.ones_like(lengths)
    atb._npu_paged_attention_splitfuse(
        q, keys, values, table, lengths, mask, queries, KEY_HEADS, HEADS, 0.25, out
    )
    return out * 2


def latent(q: Tensor, pages: list[Tensor], lengths: Sequence[int]) -> Tensor:
    keys, rope, table = pages
    found: Tensor = atb.npu_multi_head_latent_attention(
        q, q[..., :64], keys, rope, table, list(lengths), HEADS, 0.05, 1
    )
    return found + 1


@pytest.fixture(autouse=True)
def nothing_is_cut() -> Iterator[None]:
    counters.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="The current CANN|Device do not support|.*TypedStorage")
        yield


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend="air", options={"mode": "reduce-overhead"}, fullgraph=True)


def test_A34_layers_over_pages_are_one_capture_for_all_lengths() -> None:
    step, given = compiled(paged), caches()
    for lengths in LENGTHS:
        q, told = torch.randn(2, HEADS, SIZE).half().to("npu"), torch.tensor(lengths, dtype=torch.int32)
        assert torch.equal(step(q, given, told), paged(q, given, told))
    assert counters["air"]["captures"] == 1
    assert counters["air"]["graphs"] == 1


def test_lengths_that_are_changed_in_place_are_those_of_the_next_call() -> None:
    step, given = compiled(paged), caches()
    q, told = torch.randn(2, HEADS, SIZE).half().to("npu"), torch.tensor([3, 5], dtype=torch.int32)
    for _ in range(4):
        assert torch.equal(step(q, given, told), paged(q, given, told))
        told += 3
    assert counters["air"]["captures"] == 1


def test_lengths_of_queries_that_the_graph_makes_are_part_of_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the host makes the lengths of the queries, so this graph is cut
        step, given = compiled(split), caches()
        for lengths in LENGTHS:
            q, told = torch.randn(2, HEADS, SIZE).half().to("npu"), torch.tensor(lengths, dtype=torch.int32)
            assert torch.equal(step(q, given, told), split(q, given, told))


def test_A34_latent_attention_takes_its_lengths_as_a_list() -> None:
    step, given = compiled(latent), caches(1, 512, 64)
    for lengths in LENGTHS:
        q = torch.randn(2, HEADS, 512).half().to("npu")
        assert torch.equal(step(q, given, lengths), latent(q, given, lengths))
    # the first call takes a number for part of the program, as torch does; from then on it is one that changes
    assert counters["air"]["captures"] == 3
    before = counters["air"]["captures"]
    for lengths in ([4, 7], [17, 2], [11, 12]):
        q = torch.randn(2, HEADS, 512).half().to("npu")
        assert torch.equal(step(q, given, lengths), latent(q, given, lengths))
    assert counters["air"]["captures"] == before


def test_A34_a_step_writes_its_keys_and_attends_to_them() -> None:
    def decode(q: Tensor, k: Tensor, slots: Tensor, told: Tensor, pages: list[Tensor]) -> Tensor:
        keys, values, _ = pages
        atb._npu_reshape_and_cache(k, k + 1, keys, values, slots)
        return paged(q, pages, told)

    step = compiled(decode)
    mine, theirs = caches(), caches()
    for place in range(6):
        q = torch.randn(2, HEADS, SIZE).half().to("npu")
        k = torch.randn(2, KEY_HEADS, SIZE).half().to("npu")
        told = torch.tensor([place + 1, place + 2], dtype=torch.int32)
        slots = theirs[2][:, 0] * BLOCK + told.to("npu") - 1
        assert torch.equal(step(q, k, slots, told, mine), decode(q, k, slots, told, theirs))
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    assert counters["air"]["captures"] == 1
