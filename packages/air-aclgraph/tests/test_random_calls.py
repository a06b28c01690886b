"""Random sequences of calls, each compared with eager: shapes, addresses, aliases and mutations."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule

from aclgraph_backend import settings, traced, unpadded
from air_aclgraph import Executable, runtime_for

#: A capture and its calls on the simulator take ten times as long.
SEQUENCES = {"cpu": 150, "cuda": 300, "npu": 90}
LONG_RUN = 10_000

Graph = Callable[..., tuple[Any, ...]]


def arithmetic(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    z = (x * 2 + y).relu()
    return z.softmax(-1), z.sum(-1), z.t().contiguous()


def cache_write(cache: Tensor, x: Tensor) -> tuple[Any, ...]:
    cache[1:2].copy_(x[:1])
    cache.mul_(2)
    return cache.sum(0), x + cache[0]


def handed_back(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    return x, y[1:], x.t(), x + y, 7


def shared_outputs(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    z = x + y
    return z, z[1:], z.t(), z.sum()


def writes_one_reads_other(a: Tensor, b: Tensor) -> tuple[Any, ...]:
    before = b + 1
    a.add_(b)
    return before, b * 2, a.clone()


def random_numbers(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    return x + torch.rand_like(x), torch.empty_like(y).uniform_(2, 3), torch.randn(3, 3, device=x.device)


def coins(x: Tensor, y: Tensor) -> tuple[Any, ...]:
    return x + y, torch.bernoulli(y.sigmoid())


GRAPHS: tuple[Graph, ...] = (
    arithmetic, cache_write, handed_back, shared_outputs, writes_one_reads_other, random_numbers,
)  # fmt: skip
HOST_GRAPHS = (*GRAPHS, coins)  # torch_npu 2.13 cannot capture its kernel of bernoulli


class World:
    """Tensors that calls draw from: some kept for many calls, some fresh, some views of one another."""

    def __init__(self, chance: random.Random, device: str) -> None:
        self.chance = chance
        self.device = device
        self.kept = [self.fresh() for _ in range(3)]
        self.base = torch.randn(8, 4, device=device)

    def fresh(self) -> Tensor:
        kind = self.chance.randrange(4)
        if kind == 0:
            return torch.randn(3, 8, device=self.device)[:, ::2]
        if kind == 1:
            return torch.randn(4, 3, device=self.device).t()
        return torch.randn(3, 4, device=self.device)

    def draw(self, like: Tensor) -> Tensor:
        """A tensor with the strides of `like`, from one of the sources."""
        source = self.chance.randrange(5)
        candidates = [t for t in self.kept if t.stride() == like.stride()]
        if source < 2 and candidates:
            return self.chance.choice(candidates)
        if source == 2 and like.stride() == (4, 1):
            start = self.chance.randrange(5)
            return self.base[start : start + 3]
        made = torch.empty_strided(like.shape, like.stride(), device=self.device).normal_()
        if self.chance.random() < 0.3:
            self.kept[self.chance.randrange(3)] = made
        return made


def twin(args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Copies of the arguments that alias one another exactly as the arguments do."""
    storages: dict[int, torch.UntypedStorage] = {}
    copies = []
    for t in args:
        storage = storages.setdefault(t.untyped_storage()._cdata, t.untyped_storage().clone())
        copies.append(torch.empty(0, device=t.device).set_(storage, t.storage_offset(), t.shape, t.stride()))
    return tuple(copies)


def same(left: Any, right: Any) -> bool:
    """Equal values, lying alike; kernels of torch_npu lay results out unlike the fake ones that tracing asks."""
    if isinstance(left, Tensor):
        return torch.equal(left, right) and (left.device.type != "cpu" or left.stride() == right.stride())
    return bool(left == right)


def random_state(device: torch.device) -> Tensor:
    """The state of the generator that graphs on the device draw from."""
    if device.type == "cpu":
        return torch.get_rng_state()
    state: Tensor = torch.get_device_module(device).get_rng_state()
    return state


def compare(run: Executable, graph: Graph, args: tuple[Tensor, ...], seed: int) -> str | None:
    """One call against eager: outputs, the inputs afterwards, and what aliases what."""
    copies = twin(args)
    torch.manual_seed(seed)
    try:
        expected = graph(*copies)
    except RuntimeError as refused:
        with pytest.raises(RuntimeError, match=re.escape(str(refused)[:40])):
            run(*args)
        return None
    after = random_state(args[0].device)
    torch.manual_seed(seed)
    found = run(*args)
    if not all(map(same, found, expected)):
        return "an output differs"
    if not all(map(same, args, copies)):
        return "an input differs afterwards"
    if not torch.equal(after, random_state(args[0].device)):
        return "the random state differs"
    for e, f in zip(expected, found, strict=True):
        for c, a in zip(copies, args, strict=True):
            aliases = isinstance(e, Tensor) and e.untyped_storage()._cdata == c.untyped_storage()._cdata
            if aliases and f.data_ptr() - a.data_ptr() != e.data_ptr() - c.data_ptr():
                return "an output does not alias its input"
    return None


class Workshop:
    """Compiles the graphs of a test; each is traced once for the strides it is called with."""

    def __init__(self, outputs: str, device: str) -> None:
        self._runtime = runtime_for(device)
        self._graphs: dict[Any, GraphModule] = {}
        self._settings = [
            settings(device, air__outputs=outputs),
            settings(device, air__outputs=outputs, air__adaptive_slots=2),
            settings(device, air__outputs=outputs, debug__aclgraph__clone_input=False),
            settings(device, air__outputs=outputs, air__adopt_inputs=True),
        ]

    def executable(self, graph: Graph, examples: tuple[Tensor, ...], chance: random.Random) -> Executable:
        key = (graph, *(t.stride() for t in examples))
        if key not in self._graphs:
            self._graphs[key] = traced(graph, *examples)
        chosen = chance.choice(self._settings)
        return unpadded(self._graphs[key], examples, settings=chosen, runtime=self._runtime)


def check_sequences(outputs: str, device: str, numbers: range) -> None:
    workshop = Workshop(outputs, device)
    for number in numbers:
        chance = random.Random(number)
        world = World(chance, device)
        graph = chance.choice(HOST_GRAPHS if device == "cpu" else GRAPHS)
        examples = (world.fresh(), world.fresh())
        run = workshop.executable(graph, examples, chance)
        for step in range(chance.randrange(1, 8)):
            problem = compare(run, graph, (world.draw(examples[0]), world.draw(examples[1])), step)
            assert problem is None, f"sequence {number}, {graph.__name__}, call {step}: {problem}"
        run.close()


@pytest.mark.parametrize("outputs", ["kept", "view", "clone"])
def test_random_call_sequences_equal_eager(outputs: str, device: str) -> None:
    check_sequences(outputs, device, range(SEQUENCES[device] // 3))


@pytest.mark.slow
@pytest.mark.parametrize("outputs", ["kept", "view", "clone"])
def test_ten_thousand_random_call_sequences_equal_eager(outputs: str, device: str) -> None:
    first = SEQUENCES[device] // 3
    check_sequences(outputs, device, range(first, first + LONG_RUN // 3))
