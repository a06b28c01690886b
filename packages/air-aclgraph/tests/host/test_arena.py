"""Places in the shared memory: never two living blocks in one place."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from air_aclgraph.host._arena import ALIGNMENT, Arena, plan
from air_aclgraph.host._recorder import Block


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
    assert arena.reserve(500)._cdata == large._cdata
    assert arena.nbytes == 1000
    arena.drop_unused([])
    assert arena.nbytes == 0
