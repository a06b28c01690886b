"""Which copied inputs share memory with what a graph writes: found as a comparison of every pair finds it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from air_aclgraph._clashes import CHECKED, Cleared, clashing
from air_aclgraph._memory import byte_range
from air_aclgraph._slots import Kind

KINDS = (Kind.COPIED, Kind.CARRIED, Kind.MUTATED, Kind.STATIC, Kind.BOUND, Kind.VALUE)


def every_pair(args: Sequence[Any], kinds: Sequence[Kind]) -> list[int]:
    """The same by comparing each with each."""
    written = (Kind.CARRIED, Kind.MUTATED)
    apart = {Kind.COPIED: written, Kind.CARRIED: (Kind.CARRIED, *CHECKED)}
    found = []
    for i, kind in enumerate(kinds):
        others = [j for j, other in enumerate(kinds) if j != i and other in apart.get(kind, ())]
        if any(args[j].numel() and _overlap(args[i], args[j]) for j in others if args[i].numel()):
            found.append(i)
    return found


def _overlap(one: Tensor, other: Tensor) -> bool:
    (low, high), (start, end) = byte_range(one), byte_range(other)
    return low < end and start < high


def drawn(source: random.Random) -> tuple[list[Any], list[Kind]]:
    memory = [torch.zeros(64) for _ in range(3)]
    args: list[Any] = []
    kinds = [source.choice(KINDS) for _ in range(source.randint(1, 12))]
    for kind in kinds:
        begin = source.randint(0, 60)
        part = source.choice(memory)[begin : begin + source.choice((0, 1, 3, 8))]
        args.append(3 if kind is Kind.VALUE else part[:: source.choice((1, 2))])
    return args, kinds


def test_the_sorted_stretches_find_what_every_pair_does() -> None:
    some = 0
    for seed in range(600):
        args, kinds = drawn(random.Random(seed))
        expected = every_pair(args, kinds)
        assert clashing(args, kinds) == expected, seed
        some += bool(expected)
    assert 50 < some < 500


def test_only_the_inputs_that_are_asked_for_are_named() -> None:
    x = torch.zeros(4)
    kinds = (Kind.COPIED, Kind.MUTATED, Kind.COPIED)
    assert clashing([x, x, x], kinds) == [0, 2]
    assert clashing([x, x, x], kinds, among=[2]) == [2]
    assert clashing([x, x.clone(), x], kinds) == []


def test_a_graph_that_addresses_a_storage_has_all_of_it() -> None:
    memory = torch.zeros(8)
    args, kinds = [memory[:2], memory[4:]], (Kind.COPIED, Kind.MUTATED)
    assert clashing(args, kinds) == []
    assert clashing(args, kinds, frozenset({1})) == [0]


def run_of(cleared: Cleared) -> Callable[[Sequence[Any]], bool]:
    """What a generated call asks: whether all copied inputs are clear."""
    checks = {index: cleared.check_of(index) for index in cleared.copied}

    def clear(args: Sequence[Any]) -> bool:
        where = tuple(args[index].data_ptr() for index in cleared.carried)
        if cleared.carried and where != cleared.where[0] and not cleared.carried_elsewhere(args, where):
            return False
        return all(args[i].data_ptr() in known or checks[i](args) for i, known in cleared.copied.items())

    return clear


@pytest.mark.parametrize("seed", range(40))
def test_what_is_remembered_never_hides_a_clash(seed: int) -> None:
    """Mutated and static inputs stay, as an address test before has found; copied and carried ones move."""
    source = random.Random(seed)
    memory = torch.zeros(400)
    kinds = [source.choice(KINDS[:5]) for _ in range(8)]

    def part() -> Tensor:
        begin = source.randrange(0, 390, 5)
        return memory[begin : begin + 5]

    args = [part() for _ in kinds]
    clear = run_of(Cleared(kinds, frozenset()))
    for _ in range(60):
        for index, kind in enumerate(kinds):
            if kind in (Kind.COPIED, Kind.CARRIED) and source.random() < 0.4:
                args[index] = part()
        assert clear(args) == (not every_pair(args, kinds))
