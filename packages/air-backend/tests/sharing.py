"""Draws functions that write to arguments, and calls whose arguments share memory in ways that nobody chose.

What the arguments view differs between calls too: on a CPU tensors of other sizes begin at the same address, as an
allocator gives them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import torch
from torch import Tensor

BUFFER: Final = 24
BASES: Final = ((BUFFER,), (BUFFER,), (2, BUFFER), (BUFFER, 2), (BUFFER + 8,))
"""Sizes of what the arguments view."""
ARENAS: Final = tuple(bytearray(2 * BUFFER * 4) for _ in range(4))
SHAPES: Final = (
    ((4,), (1,)),
    ((4,), (2,)),
    ((2, 3), (3, 1)),
    ((2, 3), (1, 2)),
    ((2, 2, 2), (6, 2, 1)),
    ((3,), (0,)),
)

VIEWS: Final[Sequence[Callable[[Tensor], Tensor]]] = (
    lambda x: x,
    lambda x: x[1:],
    lambda x: x.unbind(0)[1],
    lambda x: x.mT if x.dim() > 1 else x.unsqueeze(0),
    lambda x: x[0].expand(2, *x.shape[1:]),
    lambda x: x.detach(),
    lambda x: x[: x.shape[0] - 1],
    lambda x: x.narrow(-1, 1, x.shape[-1] - 1),
)

Statement = Callable[[Sequence[Tensor], Tensor], Tensor]


@dataclass(frozen=True)
class Place:
    """Where an argument lies: in which buffer, and from which element on."""

    buffer: int
    offset: int


@dataclass(frozen=True)
class Call:
    """Where each argument lies, and the sizes of the buffers."""

    places: Sequence[Place]
    bases: Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class Drawn:
    """A function, the sizes and strides of its arguments, and where they lie in each call."""

    function: Callable[..., Any]
    kinds: Sequence[Any]
    calls: Sequence[Call]
    dynamic: bool | None
    context: str
    """`no_grad`, `inference`, or `grad`, where a parameter takes part."""

    def arguments(self, call: Call, device: str) -> tuple[list[Tensor], list[Tensor]]:
        """The arguments of a call, and the buffers that they are views of."""
        count = 1 + max(place.buffer for place in call.places)
        buffers = [_buffer(n, call.bases[n], device) for n in range(count)]
        args = [
            buffers[place.buffer].as_strided(size, stride, place.offset)
            for place, (size, stride) in zip(call.places, self.kinds, strict=True)
        ]
        parameter = torch.full((1,), 0.5, device=device, requires_grad=self.context == "grad")
        return [*args, parameter], buffers


def draw(seed: int) -> Drawn:
    """The same function and calls for each seed."""
    rng = random.Random(seed)
    count = rng.randint(2, 4)
    kinds = [rng.choice(SHAPES) for _ in range(count)]
    statements = [_statement(rng, kinds) for _ in range(rng.randint(2, 6))]
    dynamic, context = rng.choice((None, None, True)), rng.choice(("no_grad", "inference", "grad"))
    results = rng.choice((0, 0, 1, 2))
    views = [(rng.randrange(count), rng.choice(VIEWS)) for _ in range(results)]

    def function(*args: Tensor) -> Any:
        value = args[-1] * 1.0
        for statement in statements:
            value = statement(args, value)
        return (value, *(view(args[at]) for at, view in views))

    first = _call(rng, kinds)
    places = [first, first, *(_call(rng, kinds) for _ in range(5)), first, first]
    bases = [tuple(rng.choice(BASES) for _ in range(count)) for _ in places]
    return Drawn(function, kinds, list(map(Call, places, bases)), dynamic, context)


def _buffer(number: int, sizes: tuple[int, ...], device: str) -> Tensor:
    """Numbers that differ, at the same address in each call where tensors can be put anywhere."""
    numbers = torch.arange(float(prod(sizes))) * (number + 1)
    if device == "cpu":
        placed = torch.frombuffer(ARENAS[number], dtype=torch.float32, count=numbers.numel())
        numbers = placed.copy_(numbers)
    return numbers.view(sizes).detach().to(device)


def _statement(rng: random.Random, kinds: Sequence[Any]) -> Statement:
    writable = [at for at, (_, stride) in enumerate(kinds) if 0 not in stride]
    read, factor = rng.randrange(len(kinds)), rng.choice((0.5, 2.0, -1.0))
    written = rng.choice(writable) if writable and rng.random() < 0.6 else None
    if written is None:
        return lambda args, value: value + args[read].sum() * factor
    write = rng.choice((_scaled, _shifted, _copied, _part))
    return lambda args, value: write(args[written], args[read], value, factor)


def _scaled(into: Tensor, read: Tensor, value: Tensor, factor: float) -> Tensor:
    into.mul_(factor)
    return value + read.sum()


def _shifted(into: Tensor, read: Tensor, value: Tensor, factor: float) -> Tensor:
    into.add_(read.sum() * factor)
    return value * 0.5


def _copied(into: Tensor, read: Tensor, value: Tensor, factor: float) -> Tensor:
    into.copy_(read.mean() + into)
    return value - into.sum() * factor


def _part(into: Tensor, read: Tensor, value: Tensor, factor: float) -> Tensor:
    into[0] = read.mean() * factor
    return value + read.sum()


def _call(rng: random.Random, kinds: Sequence[Any]) -> list[Place]:
    buffers = rng.choice((1, 1, 2, len(kinds)))
    places = []
    for at, (size, stride) in enumerate(kinds):
        reach = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        buffer = at % buffers if buffers == len(kinds) else rng.randrange(buffers)
        places.append(Place(buffer, rng.randint(0, BUFFER - reach)))
    return places
