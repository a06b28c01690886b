"""Regions against brute force: every claim about strided memory is checked by listing the addresses."""

from __future__ import annotations

import itertools
from typing import Any

import hypothesis
import torch
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from air_graph import Region, repeated_element, surely_disjoint

extents = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=0, max_size=3)


def region_of(offset: int, dims: list[tuple[int, int]], itemsize: int) -> Region:
    size, stride = tuple(n for n, _ in dims), tuple(s * itemsize for _, s in dims)
    return Region(offset * itemsize, size, stride, itemsize)


def addresses(region: Region) -> list[int]:
    spans = [range(int(n)) for n in region.size]
    return [
        int(region.offset) + sum(i * int(s) for i, s in zip(index, region.stride, strict=True))
        for index in itertools.product(*spans)
    ]


def bytes_of(region: Region) -> set[int]:
    return {a + i for a in addresses(region) for i in range(region.itemsize)}


@hypothesis.settings(max_examples=600, deadline=None, derandomize=True)
@hypothesis.given(st.integers(0, 12), extents, st.integers(0, 12), extents, st.sampled_from([1, 2, 4]))
def test_regions_called_disjoint_share_no_byte(
    a_at: int, a: list[tuple[int, int]], b_at: int, b: list[tuple[int, int]], itemsize: int
) -> None:
    first, second = region_of(a_at, a, itemsize), region_of(b_at, b, 4 // itemsize)
    if surely_disjoint(first, second):
        assert bytes_of(first).isdisjoint(bytes_of(second))


@hypothesis.settings(max_examples=600, deadline=None, derandomize=True)
@hypothesis.given(st.integers(0, 12), extents)
def test_a_region_without_repeated_elements_has_as_many_addresses_as_indices(
    at: int, dims: list[tuple[int, int]]
) -> None:
    region = region_of(at, dims, 4)
    if repeated_element(region) is None:
        assert len(set(addresses(region))) == len(addresses(region))


def test_halves_rows_columns_and_interleaved_elements_are_disjoint() -> None:
    x = torch.empty(4, 6)
    for a, b in (
        (x[:2], x[2:]),
        (x[:, :3], x[:, 3:]),
        (x[::2], x[1::2]),
        (x[:, ::2], x[:, 1::2]),
        (x.t()[:3], x.t()[3:]),
        (x.view(2, 2, 6)[:, 0], x.view(2, 2, 6)[:, 1]),
    ):
        assert surely_disjoint(Region.of(a), Region.of(b))
    assert not surely_disjoint(Region.of(x[:3]), Region.of(x[2:]))


def test_expanded_and_windowed_memory_says_why_it_repeats() -> None:
    assert "expanded" in str(repeated_element(Region.of(torch.empty(1, 3).expand(2, 3))))
    assert "overlap" in str(repeated_element(Region.of(torch.empty(6).as_strided((4, 2), (1, 1)))))
    assert repeated_element(Region.of(torch.empty(4, 6).t())) is None
    assert repeated_element(Region.of(torch.empty(1).expand(1))) is None


def test_symbolic_rows_are_proven_disjoint_without_adding_a_guard() -> None:
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    from torch._dynamo.source import ConstantSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

    context: StatelessSymbolicContext[Any, Any] = StatelessSymbolicContext(
        [DimDynamic.DYNAMIC, DimDynamic.DYNAMIC]
    )
    x = mode.from_tensor(torch.empty(5, 7), symbolic_context=context, source=ConstantSource("x"))
    guards = len(env.guards)
    assert repeated_element(Region.of(x)) is None
    assert Region.of(x).same(Region.of(x.view(x.shape)))
    assert not surely_disjoint(Region.of(x), Region.of(x))
    assert len(env.guards) == guards
