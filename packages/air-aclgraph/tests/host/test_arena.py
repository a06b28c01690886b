"""Places in the shared memory: never two living blocks in one place."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from aclgraph_backend import executable
from air_aclgraph import HostRuntime
from air_aclgraph.host._arena import ALIGNMENT, Arena, plan
from air_aclgraph.host._stand_ins import Block


def block(nbytes: int, first: int, last: int, stream: int = 0, streams: set[int] | None = None) -> Block:
    return Block(torch.UntypedStorage(nbytes), stream, first, last, streams=streams or {stream})


spans = st.tuples(
    st.integers(0, 500), st.integers(0, 20), st.integers(0, 8), st.integers(0, 2), st.booleans()
)


@given(st.lists(spans, max_size=40))
@settings(max_examples=200, deadline=None)
def test_blocks_alive_together_never_overlap(rows: list[tuple[int, int, int, int, bool]]) -> None:
    blocks = {
        number: block(size, first, first + length, stream, {stream, 9} if shared else {stream})
        for number, (size, first, length, stream, shared) in enumerate(rows)
    }
    layout = plan(blocks.items(), 40)
    for i, a in blocks.items():
        for j, b in blocks.items():
            together = a.first <= (99 if len(b.streams) > 1 or a.stream != b.stream else b.last)
            together = together and b.first <= (99 if len(a.streams) > 1 or a.stream != b.stream else a.last)
            if i < j and together and a.nbytes and b.nbytes:
                apart = (
                    layout.offsets[i] + a.nbytes <= layout.offsets[j]
                    or layout.offsets[j] + b.nbytes <= layout.offsets[i]
                )
                assert apart, (i, j)
    assert all(offset % ALIGNMENT == 0 for offset in layout.offsets.values())


def test_a_chain_of_blocks_uses_two_places() -> None:
    blocks = {n: block(256, n, n + 1) for n in range(50)}
    assert plan(blocks.items(), 60).nbytes == 512


def test_smaller_recordings_share_the_chunk_of_a_larger_one() -> None:
    arena = Arena()
    large = arena.reserve(1000)
    small = arena.reserve(500)
    assert small is large
    assert arena.nbytes == 1000
    del large
    assert arena.nbytes == 1000, "the smaller one is in it"
    del small
    assert arena.nbytes == 0


def test_N25_the_memory_of_graphs_goes_with_the_last_of_them() -> None:
    runtime = HostRuntime()

    def chain(x: Tensor) -> tuple[Tensor, ...]:
        for _ in range(4):
            x = (x + 1).relu() * 2
        return (x.sum(),)

    runs = [executable(chain, torch.ones(rows), runtime=runtime) for rows in (1000, 5000)]
    runs[0](torch.ones(1000))
    runs[1](torch.ones(5000))
    assert runtime.pool_nbytes() >= 20_000
    runs.pop()
    assert runtime.pool_nbytes() > 0, "of the one that is left"
    expected = chain(torch.ones(1000))[0]
    assert torch.equal(runs[0](torch.ones(1000))[0], expected)
    runs.clear()
    assert runtime.pool_nbytes() == 0


def test_N25_memory_that_a_pinned_handle_replays_stays() -> None:
    runtime = HostRuntime()
    run = executable(lambda x: ((x + 1).relu().sum(),), torch.ones(1000), runtime=runtime)
    handle = run.pin(torch.ones(1000))
    del run
    assert runtime.pool_nbytes() > 0
    assert handle(torch.ones(1000))[0].item() == 2000.0
