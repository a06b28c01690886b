from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from air_aclgraph._eager import EagerRun, EagerRunWithKernels
from air_aclgraph._key import Key, KeyOf
from air_aclgraph._straight import Straight
from air_aclgraph.static_kernel import StaticKernels

T = TypeVar("T")


class Recorded(StaticKernels):
    """Static kernels that only remember which keys came by."""

    def __init__(self) -> None:
        self.keys: list[Key] = []

    def around(self, key: Key, run: Callable[[], T]) -> T:
        self.keys.append(key)
        return run()


def with_kernels(
    function: Callable[..., object], kernels: StaticKernels, key_of: KeyOf | None
) -> EagerRunWithKernels:
    return EagerRunWithKernels(EagerRun("graph", Straight(function, "", "", {})), kernels, key_of)


def test_S07_each_call_of_an_eager_graph_passes_with_its_key() -> None:
    kernels = Recorded()
    run = with_kernels(lambda a, b: a + b, kernels, lambda args: (args[0],))
    assert [run(n, 1) for n in (2, 3, 2, 3)] == [3, 4, 3, 4]
    assert kernels.keys == [(2,), (3,), (2,), (3,)]


def test_a_graph_without_symbols_has_one_key() -> None:
    kernels = Recorded()
    run = with_kernels(lambda a: a, kernels, None)
    assert [run(n) for n in (2, 3)] == [2, 3]
    assert kernels.keys == [(), ()]
