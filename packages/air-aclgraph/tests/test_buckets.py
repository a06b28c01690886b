"""N11: inputs are padded to declared sizes, results are the caller's, and what padding would change is refused."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.exc import BackendCompilerFailed

from aclgraph_backend import Backend
from air_aclgraph.buckets import get_dim_buckets, set_dim_buckets
from air_aclgraph.errors import BucketsRefused, Closed, InputRefused, StaleOutput
from air_fxpasses.errors import DeclarationRefused

SIZES = (4, 8, 16)
DIM0 = {0: list(SIZES)}


def bucketed(*shape: int, device: str, dims: dict[int, list[int]] | None = None) -> Tensor:
    """A random input with buckets, for its first dim if nothing else is said."""
    tensor = torch.randn(*shape, device=device)
    set_dim_buckets(tensor, dims or DIM0)
    return tensor


def compiled(function: Callable[..., Any], device: str, **options: Any) -> tuple[Any, Backend]:
    backend = Backend(device, **options)
    return torch.compile(function, backend=backend, fullgraph=True), backend


def same(own: Any, eager: Any) -> None:
    torch.testing.assert_close(own, eager, rtol=1e-4, atol=1e-4)
    assert own.stride() == eager.stride()


@pytest.fixture(autouse=True)
def _without_gradients() -> Any:
    with torch.no_grad():
        yield


def test_N11_few_sizes_are_captured_and_every_result_is_the_callers(device: str) -> None:
    net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)).eval().to(device)
    run, backend = compiled(net, device)
    for rows in (3, 4, 5, 11, 16, 2, 7, 9, 3):
        x = bucketed(rows, 6, device=device)
        same(run(x), net(x))
    only = backend.padded
    assert sorted(key[0] for key in list(only.keys())) == [4, 8, 16]
    stats = only.stats()
    assert stats["captures"] == 3
    assert stats["padded"] == 9
    assert stats["recaptures"] == {}
    assert stats["not_padded"] == {}
    (row,) = only.explain()["buckets"]
    assert row["sizes"] == [4, 8, 16]
    assert len(row["inputs"]) == 1


def test_N11_a_size_beyond_the_buckets_runs_as_it_is_and_is_counted(device: str) -> None:
    run, backend = compiled(lambda x: x * 2, device)
    for rows in (3, 20, 20, 21):
        x = bucketed(rows, 6, device=device)
        same(run(x), x * 2)
    only = backend.padded
    assert sorted(key[0] for key in list(only.keys())) == [4, 20, 21]
    assert only.stats()["not_padded"] == {"no bucket of [4, 8, 16] holds it": 3}
    assert "sizes (20,) are not padded" in " ".join(only.explain()["history"])


def test_N11_what_padding_would_change_is_refused_with_the_line(device: str) -> None:
    def mixes(x: Tensor) -> Tensor:
        return x.softmax(0)  # the line

    run, _ = compiled(mixes, device)
    with pytest.raises(
        Exception, match=r"inputs cannot be padded to \[4, 8, 16\]: aten._softmax.default"
    ) as caught:
        run(bucketed(3, 6, device=device))
    cause: Any = caught.value
    while isinstance(cause, BackendCompilerFailed):  # once for each compiler on the way
        cause = cause.inner_exception
    assert isinstance(cause, BucketsRefused)
    assert cause.where is not None
    assert cause.where.code.startswith("return x.softmax(0)")
    assert cause.operator == "aten._softmax.default"


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * (1.0 / x.shape[0]),
        lambda x: x / x.shape[0],
        lambda x: x * (x.shape[0] > 5),
    ],
    ids=["fraction", "count", "comparison"],
)
def test_N11_the_padded_size_as_a_number_is_refused(function: Callable[..., Any]) -> None:
    run, _ = compiled(function, "cpu")
    with pytest.raises(BackendCompilerFailed, match="is computed from the padded size"):
        run(bucketed(3, 6, device="cpu"))


def test_N11_two_dims_are_padded_each_to_its_own_bucket(device: str) -> None:
    run, backend = compiled(lambda x, w: (x @ w).relu(), device)
    w = torch.randn(6, 5, device=device)
    for batch, length in ((3, 5), (4, 9), (5, 5), (2, 17), (3, 3)):
        x = bucketed(batch, length, 6, device=device, dims={0: [4, 8], 1: [8, 32]})
        same(run(x, w), (x @ w).relu())
    assert {key[:2] for key in list(backend.padded.keys())} == {(4, 8), (4, 32), (8, 8)}


def test_N11_two_padded_sizes_meet_inside_a_graph_and_not_in_its_results(device: str) -> None:
    w = torch.randn(6, 5, device=device)

    def inside(x: Tensor) -> Tensor:
        return (x.view(-1, 6) @ w).view(x.shape[0], x.shape[1], 5) + 1

    dims = {0: [4, 8], 1: [8, 32]}
    run, backend = compiled(inside, device)
    for batch, length in ((3, 5), (5, 9), (2, 17)):
        x = bucketed(batch, length, 6, device=device, dims=dims)
        same(run(x), inside(x))
    assert backend.padded.stats()["padded"] == 3
    merged, _ = compiled(lambda x: x.view(-1, 6) * 2, device)
    with pytest.raises(BackendCompilerFailed, match="is a product of two sizes with buckets"):
        merged(bucketed(3, 5, 6, device=device, dims=dims))


def test_N11_results_whose_padding_lies_inside_are_copied_together(device: str) -> None:
    def merged(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x.transpose(0, 1).reshape(-1, 6) * 2, x.sum(1).t(), (x + 1).permute(2, 0, 1).contiguous()

    run, _ = compiled(merged, device)
    for rows in (3, 5, 4, 6):
        x = bucketed(rows, 7, 6, device=device)
        for own, eager in zip(run(x), merged(x), strict=True):
            same(own, eager)


def test_N11_inputs_that_share_an_undeclared_size_are_padded_together(device: str) -> None:
    def picks(x: Tensor, mask: Tensor) -> Tensor:
        return x * mask[torch.arange(x.shape[0], device=x.device), 0][:, None]

    run, backend = compiled(picks, device)
    for rows in (3, 5, 3):
        x, mask = bucketed(rows, 6, device=device), bucketed(rows, 2, device=device)
        same(run(x, mask), picks(x, mask))
    x, mask = bucketed(3, 6, device=device), bucketed(5, 2, device=device)
    same(run(x, mask), picks(x, mask))
    stats = backend.padded.stats()
    assert stats["padded"] == 3
    assert stats["not_padded"] == {"sizes that are padded together differ: [3, 5]": 1}


def test_N11_whole_numbers_are_padded_with_rows_that_are_there(device: str) -> None:
    table = torch.randn(10, 6, device=device)

    def looked_up(ids: Tensor, by: Tensor) -> tuple[Tensor, Tensor]:
        return torch.nn.functional.embedding(ids - 100, table), 1000 // by

    run, _ = compiled(looked_up, device)
    for rows in (7, 3, 5, 2):
        ids, by = torch.randint(100, 110, (rows, 3)).to(device), torch.randint(1, 9, (rows,)).to(device)
        set_dim_buckets(ids, DIM0)
        set_dim_buckets(by, DIM0)
        for own, eager in zip(run(ids, by), looked_up(ids, by), strict=True):
            same(own, eager)


def test_N11_an_input_handed_back_is_the_callers_own(device: str) -> None:
    run, _ = compiled(lambda x: (x, x * 2), device)
    for rows in (3, 5):
        x = bucketed(rows, 6, device=device)
        given, _ = run(x)
        assert given.data_ptr() == x.data_ptr()
        same(given, x)


@pytest.mark.parametrize("outputs", ["kept", "clone", "view", "guarded"])
def test_N11_N25_a_result_that_is_returned_twice_is_cut_once(device: str, outputs: str) -> None:
    def twice(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        return y, y

    run, _ = compiled(twice, device, air__outputs=outputs)
    for rows in (3, 3, 5, 2, 3, 3, 3, 3):
        x = bucketed(rows, 6, device=device)
        first, second = run(x)
        assert first is second
        same(first, x * 2)


@pytest.mark.parametrize("outputs", ["clone", "view", "guarded"])
def test_N11_results_live_as_long_as_without_buckets(device: str, outputs: str) -> None:
    run, _ = compiled(lambda x: x * 2, device, air__outputs=outputs)
    first_input = bucketed(3, 6, device=device)
    run(first_input)
    first = run(first_input)
    expected = (first_input * 2).clone()
    if outputs == "clone":
        run(bucketed(2, 6, device=device))
        same(first, expected)
    elif outputs == "view":
        second = run(bucketed(2, 6, device=device))
        assert second.data_ptr() == first.data_ptr()
    else:
        run(bucketed(2, 6, device=device))
        with pytest.raises(StaleOutput):
            first + 1


def test_N11_a_view_of_an_input_outlives_the_next_call_where_results_are_cloned() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    from aclgraph_backend import settings
    from air_aclgraph import compile_graph

    x = torch.randn(3, 6)
    set_dim_buckets(x, DIM0)
    gm = make_fx(lambda x: (x.view(-1), x * 2), tracing_mode="symbolic")(x)
    values = [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]
    run = compile_graph(gm, values, settings=settings("cpu", air__outputs="clone"))
    first, _ = run(x)
    expected = x.view(-1).clone()
    run(torch.randn(2, 6))
    torch.testing.assert_close(first, expected)


def test_N11_a_graph_may_write_inputs_that_padding_does_not_reach(device: str) -> None:
    count = torch.zeros(2, device=device)

    def counting(x: Tensor) -> Tensor:
        count.add_(1)
        return x + count[0]

    run, backend = compiled(counting, device)
    for call, rows in enumerate((3, 5, 3, 20), start=1):
        x = bucketed(rows, 6, device=device)
        same(run(x), x + call)
    assert count.tolist() == [4, 4]
    assert backend.padded.stats()["padded"] == 3


def test_N11_a_decode_step_writes_a_paged_cache_at_the_callers_slots_only(device: str) -> None:
    torch.manual_seed(0)
    queries, keys = torch.randn(8, 8, device=device), torch.randn(8, 8, device=device)
    cache, eager_cache = torch.zeros(64, 8, device=device), torch.zeros(64, 8, device=device)

    def step(x: Tensor, slots: Tensor, pages: Tensor, cache: Tensor) -> Tensor:
        cache[slots] = x @ keys  # one row for each sequence
        held = cache[pages]  # [batch, tokens, width]
        weights = ((x @ queries)[:, None] @ held.transpose(1, 2)).softmax(-1)
        return (weights @ held).squeeze(1)

    run, backend = compiled(step, device)
    taken = torch.randperm(64).tolist()
    for rows in (3, 5, 3, 16, 7, 9):
        x = bucketed(rows, 8, device=device)
        slots = torch.tensor([taken.pop() for _ in range(rows)], device=device)
        pages = torch.stack([slots, slots.flip(0), slots.roll(1)], 1)
        for value in (slots, pages):
            set_dim_buckets(value, DIM0)
        torch.testing.assert_close(
            run(x, slots, pages, cache), step(x, slots, pages, eager_cache), rtol=1e-4, atol=1e-4
        )
        torch.testing.assert_close(cache, eager_cache, rtol=1e-4, atol=1e-4)
    stats = backend.padded.stats()
    assert stats["captures"] == 3
    assert stats["padded"] == 6


def test_N11_an_input_that_shares_memory_with_what_is_written_is_not_padded(device: str) -> None:
    def writes(x: Tensor, cache: Tensor) -> Tensor:
        cache.mul_(2)
        return x + 1

    base = torch.ones(8, 6, device=device)
    run, backend = compiled(writes, device)
    apart = bucketed(3, 6, device=device)
    same(run(apart, base), apart + 1)
    shared = base[:3]
    set_dim_buckets(shared, DIM0)
    by_torch = torch.compile(writes, backend="aot_eager", fullgraph=True)
    other = torch.full((8, 6), 2.0, device=device)
    by_torch(apart, other.clone())
    same(run(shared, base), by_torch(other[:3], other))
    torch.testing.assert_close(base, other)
    assert "a padded input shares memory that the graph writes" in backend.padded.stats()["not_padded"]


def test_N11_an_evicted_bucket_gives_its_memory_back(device: str) -> None:
    run, backend = compiled(lambda x: x * 2, device, debug__aclgraph__static_capture_size_limit=1)
    run(bucketed(3, 6, device=device))
    only: Any = backend.padded
    memory = [weakref.ref(each.tensor) for buffers in only._fits.buffers.values() for each in buffers]
    for rows in (7, 3, 12, 7):
        x = bucketed(rows, 6, device=device)
        same(run(x), x * 2)
    gc.collect()
    assert len(memory) == 1
    assert memory[0]() is None
    assert only.stats()["evictions"] == 4
    assert len(only._fits.buffers) == 1


def test_N11_memory_made_in_inference_mode_serves_calls_outside_of_it(device: str) -> None:
    run, backend = compiled(lambda x: x * 2, device)
    for mode in (torch.inference_mode, torch.no_grad, torch.inference_mode, torch.no_grad):
        for rows in (3, 5):
            with mode():
                x = bucketed(rows, 6, device=device)
                same(run(x), x * 2)
    assert all(one.stats()["padded"] for one in backend.executables)


def test_N11_a_dropped_bucket_leaves_no_memory_behind(device: str) -> None:
    run, backend = compiled(lambda x: x * 2, device)
    run(bucketed(3, 6, device=device))
    only: Any = backend.padded
    assert only._fits.buffers
    assert only._fits.known == 1
    only.invalidate()
    assert not only._fits.buffers
    assert only._fits.known == 0


def test_N11_captures_are_made_again_after_they_were_dropped(device: str) -> None:
    run, backend = compiled(lambda x: x * 2, device)
    x = bucketed(3, 6, device=device)
    run(x)
    backend.padded.invalidate()
    same(run(x), x * 2)
    assert backend.padded.stats()["captures"] == 2
    backend.padded.close()
    with pytest.raises(Closed):
        run(x)


def test_N11_a_bucket_outside_the_sizes_of_the_graph_is_not_used(device: str) -> None:
    def short(x: Tensor) -> Tensor:
        torch._check(x.shape[0] < 10)
        return x * 2

    run, backend = compiled(short, device)
    for rows in (3, 9):
        x = bucketed(rows, 6, device=device)
        same(run(x), x * 2)
    stats = backend.padded.stats()
    assert stats["padded"] == 1
    (cause,) = stats["not_padded"]
    assert "the graph was traced under the condition" in cause


def test_N11_a_padded_call_cannot_be_pinned() -> None:
    run, backend = compiled(lambda x: x * 2, "cpu")
    x = bucketed(3, 6, device="cpu")
    run(x)
    with pytest.raises(InputRefused, match="pads its inputs to buckets"):
        backend.padded.pin(3, x)


def test_N11_an_input_that_stays_where_it_is_is_not_padded() -> None:
    x = bucketed(3, 6, device="cpu")
    torch._dynamo.mark_static_address(x)
    run, _ = compiled(lambda x: x * 2, "cpu")
    with pytest.raises(Exception, match="has a padded size and is static"):
        run(x)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({2: [4]}, "2 is no dim"),
        ({0: []}, r"are \[\]"),
        ({0: 4}, "are 4"),
        ({0: [4, 1]}, "1 is no size"),
        ({0: [True]}, "True is no size"),
        ({0: [4.0]}, "4.0 is no size"),
        ({True: [4]}, "True is no dim"),
        ({"0": [4], 1: [4]}, "'0' is no dim"),
        ({0: [10**30]}, "an int from 2 to 2147483647"),
        ({0: list(range(2, 2000))}, "at most 1000"),
        ([4], "names no dims"),
    ],
)
def test_N11_buckets_that_make_no_sense_are_refused(dims: Any, message: str) -> None:
    with pytest.raises(DeclarationRefused, match=message):
        set_dim_buckets(torch.randn(3, 4), dims)


def test_N11_buckets_are_declared_once_and_on_tensors() -> None:
    x = torch.randn(3, 4)
    set_dim_buckets(x, {0: [8, 4, 8]})
    set_dim_buckets(x, {0: [4, 8]})
    assert get_dim_buckets(x) == {0: (4, 8)}
    with pytest.raises(DeclarationRefused, match="already"):
        set_dim_buckets(x, {0: [4, 16]})
    with pytest.raises(DeclarationRefused, match="not on 3"):
        set_dim_buckets(3, {0: [4]})  # type: ignore[arg-type]  # what is tested


def rows_apart(chance: random.Random) -> Callable[[Tensor, Tensor], Tensor]:
    """A random function whose rows do not depend on one another."""
    steps: list[Callable[[Tensor, Tensor], Tensor]] = [
        lambda x, w: x @ w,
        lambda x, w: x.relu() + 1,
        lambda x, w: x.softmax(-1),
        lambda x, w: x.flip(-1) * x,
        lambda x, w: x - x.mean(-1, keepdim=True),
        lambda x, w: torch.cat([x[..., :2], x[..., 2:] * 2], -1),
        lambda x, w: x.unsqueeze(1).expand(-1, 3, -1).reshape(-1, 4)[: x.shape[0]],
        lambda x, w: x.t().contiguous().t() + w[0],
        lambda x, w: x * torch.arange(x.shape[0], device=x.device)[:, None],
    ]
    chosen = [chance.choice(steps) for _ in range(chance.randrange(1, 6))]

    def function(x: Tensor, w: Tensor) -> Tensor:
        for step in chosen:
            x = step(x, w)
        return x

    return function


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
def test_N11_random_programs_of_rows_are_padded_and_equal_eager(device: str, seed: int) -> None:
    function = rows_apart(random.Random(seed))
    run, backend = compiled(function, device)
    w = torch.randn(4, 4, device=device)
    for rows in (3, 4, 7, 9, 16, 3, 5):
        x = bucketed(rows, 4, device=device)
        own = run(x, w)
        torch.testing.assert_close(own, function(x, w), rtol=1e-4, atol=1e-4)
    assert backend.padded.stats()["captures"] == 3
