"""Programs made from numbers: graphs of views, scatters, writes and arithmetic, run as they are built.

A list of integers decides everything, so a property-based tester supplies integers and shrinks them, and a
failing program is reproduced from its list. While the graph is built, every call is also executed; that
execution is the truth a transformed graph is compared with. Left out is a call that eager refuses, and one
for which the operator's fake kernel disagrees with eager about layout or memory: no pass can do anything
about those. Where such a call has written already, the program ends before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_leaves

from air_fxpasses.testing import Outcome, copied, difference, run_graph

_EAGER_REFUSES: Final = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)
Sizes = Sequence[tuple[int, ...]]
#: Sizes for programs in which most values differ in size.
VARIED: Final[Sizes] = ((4,), (2, 3), (3, 4), (4, 4), (2, 3, 4), (1, 4), (2, 2, 2), ())
#: Sizes that a transposed value keeps: it may be written back, scattered and replaced, and lie differently.
SQUARE: Final[Sizes] = ((3, 3), (3, 3), (3, 3), (3, 3, 3), (2, 2))
_TYPES: Final = (torch.float32, torch.float32, torch.float32, torch.int64, torch.float16, torch.bool)
MOST_INPUTS: Final = 3


@dataclass(frozen=True)
class Slot:
    """A value of the program: its node, and what eager computed for it."""

    node: Node
    value: Any

    @property
    def fake(self) -> Any:
        return self.node.meta["val"]


Instruction = Callable[["Builder"], Any]


@dataclass(frozen=True)
class Program:
    """A graph, the inputs it was made for, and what eager does with them."""

    gm: GraphModule
    inputs: tuple[torch.Tensor, ...]
    eager: Outcome

    def copy(self) -> GraphModule:
        """The graph once more, to transform it."""
        graph = Graph()
        graph.output(graph.graph_copy(self.gm.graph, {}))
        return _module(graph)

    def difference(self, gm: GraphModule, rtol: float = 0.0) -> str | None:
        """What a caller of `gm` sees that eager did not do; `None` when they agree."""
        return difference(self.eager, run_graph(gm, copied(self.inputs)), rtol)


@dataclass
class Builder:
    """Draws from `choices`, builds and executes."""

    choices: Iterator[int]
    graph: Graph = field(default_factory=Graph)
    pool: list[Slot] = field(default_factory=list)
    live_inputs: list[torch.Tensor] = field(default_factory=list)
    mode: FakeTensorMode = field(default_factory=FakeTensorMode)
    is_dynamic: bool = False
    is_exhausted: bool = False

    def draw(self, count: int) -> int:
        """A number below `count`."""
        value = next(self.choices, None)
        if value is None:
            self.is_exhausted = True
            return 0
        return value % count

    def one_of(self, values: Sequence[Any]) -> Any:
        return values[self.draw(len(values))]

    def tensor(self) -> Slot:
        """A value of the pool, mostly a recent one, so that programs are chains rather than heaps."""
        depth = len(self.pool) if self.draw(3) == 0 else min(3, len(self.pool))
        return self.pool[-1 - self.draw(depth)]

    def like(self, other: Slot) -> Slot | None:
        """A value with the size and type of `other`."""
        same = [
            s
            for s in self.pool
            if s.value.size() == other.value.size() and s.value.dtype == other.value.dtype
        ]
        return same[-1 - self.draw(len(same))] if same else None

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Slot | None:
        """Executes and records a call; `None` when it is left out."""
        fake_args, fake_kwargs = map_aggregate((args, kwargs), _fake_of)
        real_args, real_kwargs = map_aggregate((args, kwargs), _value_of)
        try:
            value = target(*real_args, **real_kwargs)
        except _EAGER_REFUSES:
            return None
        try:
            with self.mode, self._dispatcher():
                fake = target(*fake_args, **fake_kwargs)
        except _EAGER_REFUSES:
            _check_left_out(target)
            return None
        before = list(
            zip(_tensors((real_args, real_kwargs)), _tensors((fake_args, fake_kwargs)), strict=True)
        )
        after = list(zip(_tensors(value), _tensors(fake), strict=True))
        if not all(_agree(real, guess, before) for real, guess in after):
            _check_left_out(target)
            return None
        node_args, node_kwargs = map_aggregate((args, kwargs), _node_of)
        node = self.graph.call_function(target, node_args, node_kwargs)
        node.meta["val"] = fake
        slot = Slot(node, value)
        if isinstance(value, torch.Tensor):
            self.pool.append(slot)
        return slot

    def _dispatcher(self) -> AbstractContextManager[Any]:
        return enable_python_dispatcher() if self.is_dynamic else nullcontext()

    def add_input(self, value: torch.Tensor) -> None:
        name = f"x{len(self.live_inputs)}"
        node = self.graph.placeholder(name)
        node.meta["val"] = self._fake_input(value, name)
        self.live_inputs.append(value)
        self.pool.append(Slot(node, value))

    def _fake_input(self, value: torch.Tensor, name: str) -> torch.Tensor:
        if not self.is_dynamic:
            return self.mode.from_tensor(value)
        context: StatelessSymbolicContext[Any, Any] = StatelessSymbolicContext(
            [DimDynamic.DUCK] * value.dim()
        )
        return self.mode.from_tensor(value, symbolic_context=context, source=ConstantSource(name))


class _WroteAlready(Exception):
    """A call cannot be left out: eager has carried it out, and its fake kernel says something else."""


def _check_left_out(target: Any) -> None:
    if isinstance(target, OpOverload) and target._schema.is_mutable:
        raise _WroteAlready(str(target))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _agree(
    real: torch.Tensor, fake: torch.Tensor, arguments: list[tuple[torch.Tensor, torch.Tensor]]
) -> bool:
    """Whether fake and real result have one layout, and alias the same arguments."""
    layout = (real.dtype, tuple(real.size()), tuple(real.stride()), real.storage_offset())
    guess = (fake.dtype, tuple(fake.size()), tuple(fake.stride()), fake.storage_offset())
    return layout == guess and all(
        _same_storage(real, before) == _same_storage(fake, guessed) for before, guessed in arguments
    )


def _same_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(a.untyped_storage()._cdata == b.untyped_storage()._cdata)


def _fake_of(item: Any) -> Any:
    return item.fake if isinstance(item, Slot) else item


def _value_of(item: Any) -> Any:
    return item.value if isinstance(item, Slot) else item


def _node_of(item: Any) -> Any:
    return item.node if isinstance(item, Slot) else item


def build_program(
    choices: Sequence[int],
    instructions: Sequence[Instruction],
    *,
    length: int = 12,
    is_dynamic: bool = False,
    sizes: Sizes = VARIED,
) -> Program:
    """The program that `choices` describe, made of at most `length` of `instructions`.

    Inputs have some of `sizes`, which are symbols in a dynamic program.
    """
    mode = FakeTensorMode(shape_env=ShapeEnv() if is_dynamic else None)
    mode.cache_enabled = False  # it is the process's: the program would depend on those before it
    builder = Builder(iter(choices), mode=mode, is_dynamic=is_dynamic)
    for index in range(1 + builder.draw(MOST_INPUTS)):
        builder.add_input(_filled(builder.one_of(sizes), builder.one_of(_TYPES), index, builder.draw(3)))
    pristine = copied(builder.live_inputs)
    for done in range(length):
        instruction = builder.one_of(instructions)
        if builder.is_exhausted:
            break
        try:
            instruction(builder)
        except _WroteAlready:
            return build_program(choices, instructions, length=done, is_dynamic=is_dynamic, sizes=sizes)
    _write_back(builder)
    outputs = _outputs(builder)
    builder.graph.output(tuple(slot.node for slot in outputs))
    gm = _module(builder.graph)
    eager = Outcome(tuple(slot.value for slot in outputs), tuple(builder.live_inputs))
    return Program(gm, tuple(pristine), eager)


def _module(graph: Graph) -> GraphModule:
    """A module whose code is generated when it is called; `run_graph` needs none."""
    return _LazyGraphModule(torch.nn.Module(), graph)


def _filled(size: tuple[int, ...], dtype: torch.dtype, seed: int, layout: int) -> torch.Tensor:
    """Small distinct values; rows, columns, or every second element of a longer storage."""
    count = int(torch.Size(size).numel())
    values = (torch.arange(2 * count) * 3 + seed) % 11 - 5
    typed = values.to(dtype)
    if layout == 1 and len(size) >= 2:
        return typed[:count].reshape(size[::-1]).permute(*reversed(range(len(size))))
    if layout == 2:
        return typed[::2].as_strided(size, _row_strides(size, 2), 0)
    return typed[:count].clone().reshape(size)


def _row_strides(size: tuple[int, ...], step: int) -> list[int]:
    strides: list[int] = []
    for extent in reversed(size):
        strides.insert(0, step)
        step *= extent
    return strides


def _write_back(builder: Builder) -> None:
    """Copies into inputs at the end, the way functionalisation writes a mutated input."""
    for slot in builder.pool[: len(builder.live_inputs)]:
        if builder.draw(2) == 1 and (source := builder.like(slot)) is not None and source is not slot:
            builder.call(torch.ops.aten.copy_.default, slot, source)


def _outputs(builder: Builder) -> list[Slot]:
    count = 1 + builder.draw(3)
    chosen = [builder.tensor() for _ in range(count)]
    return list({slot.node: slot for slot in chosen}.values())
