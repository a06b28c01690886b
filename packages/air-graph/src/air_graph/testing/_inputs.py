"""Inputs as expressions: their values, and the ways in which they may lie in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Final

Sizes = tuple[int, ...]
Made = Callable[[int], str]

DTYPES: Final = (
    *("float32",) * 10,
    "int64",
    "int64",
    "int32",
    "bool",
    "float16",
    "bfloat16",
    "float64",
    "complex64",
)
#: Symbols stand for sizes that another call may change.
SHAPES: Final = (
    ("R", "C"),
    ("R", "C"),
    ("R", "C"),
    ("C",),
    ("R", 1),
    ("C", "R"),
    (4, 4),
    (2, "R", "C"),
    ("R", "C", 2),
    (2, "C", 2, "R"),
    (),
    ("R",),
)
LAYOUTS: Final = (
    *("contiguous",) * 5,
    "transposed",
    "transposed",
    "sliced",
    "sliced",
    "offset",
    "expanded",
    "channels_last",
)


@dataclass(frozen=True)
class Plan:
    """An input without its values: what another call keeps, or changes."""

    shape: tuple[int | str, ...]
    dtype: str
    layout: str
    needs_gradient: bool = False
    on_host: bool = False
    """In the memory of the CPU, whatever the device of the others is."""

    def sizes(self, symbols: dict[str, int]) -> Sizes:
        return tuple(symbols[s] if isinstance(s, str) else s for s in self.shape)


def draw_plan(chance: random.Random, trains: bool) -> Plan:
    dtype = "float32" if trains and chance.random() < 0.8 else chance.choice(DTYPES)
    needs_gradient = trains and dtype == "float32" and chance.random() < 0.8
    on_host = chance.random() < 0.1
    return Plan(chance.choice(SHAPES), dtype, chance.choice(LAYOUTS), needs_gradient, on_host)


def draw_symbols(chance: random.Random) -> dict[str, int]:
    """Sizes for the symbols; empty now and then, and small enough that everything stays quick."""
    return {"R": chance.choice((2, 3, 3, 4, 5)), "C": chance.choice((2, 4, 4, 5, 6))}


def values(count: int, dtype: str, seed: int, device: str = "cpu") -> str:
    """Different small numbers, exact in every dtype."""
    at = "" if device == "cpu" else f', device="{device}"'
    step, start = (7, 5, 11, 3, 13)[seed % 5], 18 - seed % 7
    numbers = f"torch.arange({count}{at}) * {step} % 37 - {start}"
    if dtype == "int64":
        return f"({numbers})"
    if dtype == "bool":
        return f"({numbers} > 0)"
    if dtype == "complex64":
        return f"(({numbers}) / 4 * (1 - 0.5j))"
    if dtype == "float32":
        return f"(({numbers}) / 4)"
    return f"(({numbers}) / 4).to(torch.{dtype})" if "float" in dtype else f"({numbers}).to(torch.{dtype})"


def tensor(plan: Plan, sizes: Sizes, seed: int, device: str = "cpu") -> str:
    """An expression for a tensor of these sizes that lies as the plan says."""

    def made(count: int) -> str:
        return values(count, plan.dtype, seed, "cpu" if plan.on_host else device)

    text = _LAID_OUT[plan.layout if sizes else "contiguous"](made, sizes)
    return f"{text}.requires_grad_()" if plan.needs_gradient else text


def _contiguous(made: Made, sizes: Sizes) -> str:
    return f"{made(prod(sizes))}.reshape({sizes})"


def _transposed(made: Made, sizes: Sizes) -> str:
    if len(sizes) < 2:
        return f"{made(2 * prod(sizes))}[::2]" if sizes else _contiguous(made, sizes)
    return f"{_contiguous(made, (sizes[-1], *sizes[1:-1], sizes[0]))}.transpose(0, -1)"


def _sliced(made: Made, sizes: Sizes) -> str:
    larger = (sizes[0] + 2, *sizes[1:-1], *((sizes[-1] * 2,) if len(sizes) > 1 else ()))
    tail = ", ..., ::2" if len(sizes) > 1 else ""
    return f"{_contiguous(made, larger)}[1:-1{tail}]"


def _offset(made: Made, sizes: Sizes) -> str:
    return f"{made(prod(sizes) + 3)}[3:].reshape({sizes})"


def _expanded(made: Made, sizes: Sizes) -> str:
    return f"{_contiguous(made, (1, *sizes[1:]))}.expand({sizes})"


def _channels_last(made: Made, sizes: Sizes) -> str:
    text = _contiguous(made, sizes)
    return f"{text}.contiguous(memory_format=torch.channels_last)" if len(sizes) == 4 else text


_LAID_OUT: Final[dict[str, Callable[[Made, Sizes], str]]] = {
    "contiguous": _contiguous,
    "transposed": _transposed,
    "sliced": _sliced,
    "offset": _offset,
    "expanded": _expanded,
    "channels_last": _channels_last,
}
