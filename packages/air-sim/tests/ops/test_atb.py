"""The library of transformer operators (libatb): attention over pages and packed sequences, caches, positions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

torch_npu = pytest.importorskip("torch_npu", exc_type=ImportError)
atb = torch.ops.atb

HEADS, KEY_HEADS, SIZE, BLOCK = 4, 2, 16, 8
SCALE = 0.25


def attended(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Queries [S, N, D] over keys and values [L, M, D] of one sequence."""
    q, k, v = (x.float().transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    found = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=SCALE, enable_gqa=True)
    return found[0].transpose(0, 1)


def causal(queries: int, keys: int) -> torch.Tensor:
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


class Pages:
    """Keys and values in pages, in an order of their own for each sequence."""

    def __init__(self, sequences: int, size: int = SIZE, heads: int = KEY_HEADS) -> None:
        self.cache = [torch.randn(16, BLOCK, heads, size).half() for _ in range(2)]
        self.table = torch.randperm(16)[: 4 * sequences].reshape(sequences, 4).int()

    def rows(self, sequence: int, length: int) -> list[torch.Tensor]:
        return [cache[self.table[sequence].long()].flatten(0, 1)[:length] for cache in self.cache]

    def on_device(self, strips: bool = False) -> list[torch.Tensor]:
        caches = [in_strips(c) for c in self.cache] if strips else self.cache
        return [*(c.npu() for c in caches), self.table.npu()]


def in_strips(cache: torch.Tensor) -> torch.Tensor:
    blocks = cache.flatten(2)
    return blocks.reshape(*blocks.shape[:2], -1, 16).transpose(1, 2).contiguous()


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def assert_close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(found.cpu().float(), wanted.float(), atol=5e-3, rtol=5e-3)


@pytest.mark.parametrize("strips", [False, True])
def test_a_query_of_each_sequence_attends_to_its_pages(strips: bool) -> None:
    pages, q = Pages(3), torch.randn(3, HEADS, SIZE).half()
    lengths = (1, 20, 32)
    out = torch.zeros_like(q).npu()
    keys, values, table = pages.on_device(strips)
    atb._npu_paged_attention(q.npu(), keys, values, KEY_HEADS, HEADS, SCALE, table, ints(*lengths), out)
    wanted = [attended(q[i : i + 1], *pages.rows(i, n)) for i, n in enumerate(lengths)]
    assert_close(out, torch.cat(wanted))


def test_values_may_be_a_part_of_the_keys() -> None:
    pages, q = Pages(2, heads=1), torch.randn(2, HEADS, SIZE).half()
    out = torch.zeros(2, HEADS, 12).half().npu()
    keys, _, table = pages.on_device()
    atb._npu_paged_attention_mla(q.npu(), keys, 1, HEADS, SCALE, table, ints(9, 17), 12, out)
    rows = [pages.rows(i, n)[0] for i, n in enumerate((9, 17))]
    assert_close(out, torch.cat([attended(q[i : i + 1], k, k[..., :12]) for i, k in enumerate(rows)]))


def test_several_queries_of_a_sequence_see_what_the_mask_lets_them() -> None:
    pages, q = Pages(2), torch.randn(4, HEADS, SIZE).half()
    queries, lengths = (3, 1), (11, 5)
    visible = torch.zeros(4, 32, dtype=torch.bool)
    visible[:3, :11], visible[3:, :5] = causal(3, 11), causal(1, 5)
    mask = torch.zeros(4, 32).masked_fill(~visible, -10000.0).half()
    out = torch.zeros_like(q).npu()
    keys, values, table = pages.on_device()
    atb._npu_paged_attention_splitfuse(
        q.npu(), keys, values, table, ints(*lengths), mask.npu(), ints(*queries), KEY_HEADS, HEADS, SCALE, out
    )
    wanted = of_sequences(q, pages, queries, lengths)
    assert_close(out, wanted)


def test_queries_behind_a_prefix_see_what_is_before_them() -> None:
    pages, q = Pages(2), torch.randn(5, HEADS, SIZE).half()
    queries, lengths = (2, 3), (9, 3)
    out = torch.zeros_like(q).npu()
    mask = torch.zeros(128, 128).half().npu()
    keys, values, table = pages.on_device()
    atb._npu_flash_attention_qlens(
        q.npu(), keys, values, table, mask, ints(*queries), ints(*lengths), KEY_HEADS, HEADS, SCALE, out
    )
    assert_close(out, of_sequences(q, pages, queries, lengths))


def of_sequences(
    q: torch.Tensor, pages: Pages, queries: Sequence[int], lengths: Sequence[int]
) -> torch.Tensor:
    own = q.split(list(queries))
    return torch.cat(
        [
            attended(own[i], *pages.rows(i, n), causal(queries[i], n)) for i, n in enumerate(lengths)
        ]
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_packed_sequences_are_kept_apart(dtype: torch.dtype) -> None:
    lengths = (3, 5)
    q, k, v = (torch.randn(8, n, SIZE).to(dtype) for n in (HEADS, KEY_HEADS, KEY_HEADS))
    hidden = ~causal(5, 5)
    mask = hidden.to(dtype) if dtype is torch.bfloat16 else hidden.to(dtype) * -10000
    out = torch.zeros_like(q).npu()
    given = (q.npu(), k.npu(), v.npu(), mask.npu(), ints(*lengths))
    atb._npu_flash_attention(*given, SCALE, HEADS, KEY_HEADS, out)
    parts = zip(*(x.split(list(lengths)) for x in (q, k, v)), strict=True)
    wanted = [attended(*part, causal(n, n)) for part, n in zip(parts, lengths, strict=True)]
    torch.testing.assert_close(out.cpu().float(), torch.cat(wanted), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("neox", [True, False])
def test_positions_turn_pairs_or_halves(neox: bool) -> None:
    angles = torch.outer(torch.arange(32.0), torch.arange(1.0, 9.0) / 8)
    positions = torch.tensor([3, 7, 30])
    query, key = torch.randn(3, 2 * SIZE), torch.randn(3, SIZE)
    found = [x.clone().npu() for x in (query, key)]
    cache = torch.cat((angles.cos(), angles.sin()), -1).npu()
    atb._npu_rotary_embedding(positions.npu(), *found, SIZE, cache, neox)
    for mine, x in zip(found, (query, key), strict=True):
        assert_close(mine, turned(x, angles[positions], neox))


def turned(x: torch.Tensor, angles: torch.Tensor, neox: bool) -> torch.Tensor:
    heads = x.view(len(x), -1, SIZE)
    first, second = heads.chunk(2, -1) if neox else (heads[..., ::2], heads[..., 1::2])
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    parts = (first * cos - second * sin, second * cos + first * sin)
    both = torch.cat(parts, -1) if neox else torch.stack(parts, -1).flatten(-2)
    return both.reshape(x.shape)


@pytest.mark.parametrize("strips", [False, True])
def test_tokens_come_into_their_slots(strips: bool) -> None:
    pages = Pages(1)
    tokens = [torch.randn(3, KEY_HEADS, SIZE).half() for _ in range(2)]
    slots = (5, -1, 40)
    caches = pages.on_device(strips)[:2]
    atb._npu_reshape_and_cache(*(t.npu() for t in tokens), *caches, ints(*slots).npu())
    for found, cache, rows in zip(caches, pages.cache, tokens, strict=True):
        wanted = cache.flatten(0, 1).clone()
        wanted[5], wanted[40] = rows[0], rows[2]
        wanted = wanted.view_as(cache)
        assert torch.equal(found.cpu(), in_strips(wanted) if strips else wanted)


def test_keys_may_have_a_cache_of_their_own() -> None:
    cache, key = torch.zeros(2, BLOCK, 1, SIZE).npu(), torch.randn(1, 1, SIZE)
    atb._npu_reshape_and_cache_siso(key.npu(), cache, ints(9).npu())
    assert torch.equal(cache.cpu()[1, 1], key[0])


def test_latent_keys_are_values_too() -> None:
    latent, rope = Pages(2, 512, 1), Pages(2, 64, 1)
    rope.table = latent.table
    q, q_rope = torch.randn(2, HEADS, 512).half(), torch.randn(2, HEADS, 64).half()
    given = (q.npu(), q_rope.npu(), latent.cache[0].npu(), rope.cache[0].npu(), latent.table.npu())
    found, sums = atb.npu_multi_head_latent_attention(
        *given, [4, 30], HEADS, SCALE / 8, 1, True, calc_type="calc_type_ring"
    )
    for i, n in enumerate((4, 30)):
        value = latent.rows(i, n)[0]
        key, query = torch.cat((value, rope.rows(i, n)[0]), -1), torch.cat((q[i], q_rope[i]), -1)
        scores = query.float() @ key[:, 0].float().T * (SCALE / 8)
        assert_close(found[i], scores.softmax(-1) @ value[:, 0].float())
        torch.testing.assert_close(
            sums[i].cpu().float(), scores.logsumexp(-1, keepdim=True), atol=1e-2, rtol=1e-2
        )


def test_pages_are_loaded_one_sequence_after_the_other() -> None:
    pages = Pages(2)
    keys, values, table = pages.on_device()
    found = atb.npu_paged_cache_load(keys, values, table, ints(3, 10).npu(), seq_starts=ints(0, 9).npu())
    for at, mine in enumerate(found):
        wanted = (pages.rows(0, 3)[at], pages.rows(1, 18)[at][8:])  # a start counts by whole blocks
        assert torch.equal(mine.cpu(), torch.cat(wanted))


def test_lengths_of_loaded_pages_may_be_summed_up() -> None:
    pages = Pages(3)
    keys, values, table = pages.on_device()
    found = atb.npu_paged_cache_load(keys, values, table, ints(0, 3, 13, 14).npu(), cumsum=True)
    for at, mine in enumerate(found):
        wanted = [pages.rows(i, length)[at] for i, length in enumerate((3, 10, 1))]
        assert torch.equal(mine.cpu(), torch.cat(wanted))


def test_a_product_is_added_to_its_result() -> None:
    x, w, c = torch.randn(6, 4).half(), torch.randn(6, 5).half(), torch.randn(4, 5)
    found = c.npu()
    atb._npu_matmul_add_fp32(x.npu(), w.npu(), found)
    assert_close(found, c + x.float().T @ w.float())


def test_values_are_rounded_to_eight_bits() -> None:
    x, scale, zero = torch.tensor([[0.6, -3.0, 900.0]]).half(), torch.tensor([0.5]).half(), torch.tensor([1])
    found = torch.zeros(1, 3, dtype=torch.int8).npu()
    atb._npu_quantize_per_tensor(x.npu(), scale.npu(), zero.char().npu(), found)
    assert found.cpu().tolist() == [[2, -5, 127]]


def test_all_but_the_best_groups_become_nothing() -> None:
    x = torch.tensor([[1.0, 5, 4, 4, 2, 3]]).half()
    by_largest, by_sum = x.npu(), x.npu()
    atb._npu_group_topk(by_largest, k=1, group_num=3, n=1)
    atb._npu_group_topk(by_sum, k=1, group_num=3, n=2)
    assert by_largest.cpu().tolist() == [[1, 5, 0, 0, 0, 0]]
    assert by_sum.cpu().tolist() == [[0, 0, 4, 4, 0, 0]]


def test_a_replay_attends_to_updated_lengths() -> None:
    pages, q = Pages(2), torch.randn(2, HEADS, SIZE).half()
    keys, values, table = pages.on_device()
    settings = (keys, values, KEY_HEADS, HEADS, SCALE, table)
    query, out = q.npu(), torch.zeros_like(q).npu()
    workspace = atb._npu_paged_attention_get_workspace(query, *settings, ints(3, 4), out)
    assert workspace.numel()
    graph, update, stream = torch.npu.NPUGraph(), torch.npu.Stream(), torch.npu.Stream()
    with torch.npu.graph(graph, stream=stream):
        torch.npu.graph_task_group_begin(stream)
        atb._npu_paged_attention(query, *settings, ints(3, 4), out, workspace=workspace)
        handle = torch.npu.graph_task_group_end(stream)
    for lengths in ((3, 4), (30, 1), (8, 9)):
        with torch.npu.stream(update):
            torch.npu.graph_task_update_begin(update, handle)
            atb._npu_paged_attention(query, *settings, ints(*lengths), out, workspace=workspace)
            torch.npu.graph_task_update_end(update)
        torch.npu.synchronize()
        graph.replay()
        wanted = [attended(q[i : i + 1], *pages.rows(i, n)) for i, n in enumerate(lengths)]
        assert_close(out, torch.cat(wanted))


def test_a_norm_is_rounded_to_eight_bits() -> None:
    x, weight, bias = (torch.randn(*size).half() for size in ((4, 8), (1, 8), (1, 8)))
    found = torch.zeros(4, 8, dtype=torch.int8).npu()
    scale, offset = torch.tensor([0.3]).half(), torch.tensor([2], dtype=torch.int8)
    atb._npu_quant_rms_norm(*(t.npu() for t in (x, weight, bias, scale, offset)), found)
    normed = F.rms_norm(x.float(), (8,), weight[0].float(), 1e-5) + bias.float()
    wanted = (normed / scale.float() + 2).round().clamp(-128, 127)
    assert (found.cpu() - wanted).abs().max() <= 1


def test_what_is_not_implemented_is_named() -> None:
    q, cache = torch.zeros(1, HEADS, SIZE).char().npu(), torch.zeros(2, BLOCK, 1, SIZE).char().npu()
    scales, out = torch.ones(HEADS).npu(), torch.zeros(1, HEADS, SIZE).half().npu()
    table = ints(0).view(1, 1).npu()
    atb._npu_paged_attention_quant(
        q, cache, cache, 1, HEADS, SCALE, table, ints(1), 2, 1, scales, scales, out
    )
    with pytest.raises(RuntimeError, match="a quantised cache of libatb's attention is not implemented"):
        torch.npu.synchronize()


def test_a_kernel_that_fails_says_why() -> None:
    pages, q = Pages(1), torch.randn(1, HEADS, SIZE).half().npu()
    keys, values, table = pages.on_device()
    atb._npu_paged_attention(q, keys, values, KEY_HEADS, HEADS, SCALE, table, ints(33), torch.zeros_like(q))
    with pytest.raises(RuntimeError, match=r"atb PagedAttentionParam: .*exceeds dimension size"):
        torch.npu.synchronize()
