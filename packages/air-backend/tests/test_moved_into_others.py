"""Parameters, buffers and other tensors of a module come to lie over one another, or over an argument, between calls.

Dynamo compiles such a module once: it asks for sizes and types, not for memory. A graph that was traced with all of
them apart reads before it writes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn

MODES = ("reduce-overhead", "max-autotune")
TENSORS: Final = ("first", "second", "weight", "other", "plain")
STATEMENTS: Final = (
    "{a}.add_(1)",
    "{a}.mul_(2)",
    "{a}.copy_({b} + 1)",
    "out = out + {a}.sum() * 2",
    "out = out + ({a} * {b}).sum()",
)


class Module(nn.Module):
    def __init__(self, device: str) -> None:
        super().__init__()
        for name in TENSORS:
            tensor = torch.arange(4.0, device=device)
            if name in ("first", "second"):
                self.register_buffer(name, tensor)
            else:
                setattr(self, name, tensor if name == "plain" else nn.Parameter(tensor, requires_grad=False))

    def move(self, name: str, memory: Tensor) -> None:
        if name in ("weight", "other"):
            getattr(self, name).data = memory
        else:
            setattr(self, name, memory)


class Drawn:
    """A module's forward, and what moves before each call; whether the call has the argument of others."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        names = (*(f"self.{name}" for name in TENSORS), "x[:4]", "x[4:]", "x[2:6]", "y")
        lines = [
            rng.choice(STATEMENTS).format(a=rng.choice(names), b=rng.choice(names))
            for _ in range(rng.randint(1, 4))
        ]
        body = "\n    ".join(["out = x.new_zeros(())", *lines, "return out + x.sum()"])
        self.source = f"def forward(self, x, y):\n    {body}\n"
        self.moves = [
            (rng.choice(TENSORS), rng.choice(("x[:4]", "x[2:6]", "y", "new", "first", "weight")))
            if number and rng.random() < 0.6
            else None
            for number in range(9)
        ]
        self.again = [rng.random() < 0.3 for _ in self.moves]

    def play(self, compile: Callable[[nn.Module], Callable[..., Any]], device: str) -> list[list[Tensor]]:
        """What each call gives, and what it leaves in all tensors."""
        names: dict[str, Any] = {}
        exec(self.source, names)
        module = type("Program", (Module,), {"forward": names["forward"]})(device)
        run, whole, found = compile(module), torch.arange(12.0, device=device), []
        with torch.no_grad():
            for move, again in zip(self.moves, self.again, strict=True):
                x = whole[:8] if again else torch.arange(8.0, device=device)
                y = torch.arange(4.0, device=device)
                if move is not None:
                    name, target = move
                    there = {
                        "x[:4]": x[:4],
                        "x[2:6]": x[2:6],
                        "y": y,
                        "new": torch.arange(4.0, device=device),
                    }
                    module.move(name, there[target] if target in there else getattr(module, target).detach())
                tensors = [run(x, y), x, y, whole, *(getattr(module, name) for name in TENSORS)]
                found.append([one.detach().cpu().clone() for one in tensors])
        return found


def judge(seed: int, mode: str, device: str) -> None:
    torch._dynamo.reset()
    drawn = Drawn(seed)
    expected = drawn.play(lambda module: module, device)
    found = drawn.play(lambda module: torch.compile(module, backend="air", options={"mode": mode}), device)
    for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        torch.testing.assert_close(
            mine, theirs, msg=f"seed {seed}, call {number}, {drawn.moves}\n{drawn.source}: {{}}".format
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("first", range(0, 20, 10))
def test_N25_drawn_moves_leave_eagers_numbers(mode: str, first: int) -> None:
    for seed in range(first, first + 10):
        judge(seed, mode, "cpu")


@pytest.mark.npu("max-autotune does not serve CUDA tensors")
@pytest.mark.parametrize("mode", MODES)
def test_N25_drawn_moves_on_an_npu_leave_eagers_numbers(mode: str) -> None:
    for seed in (5, 7, 13, 35, 55):
        judge(seed, mode, "npu")


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_many_drawn_moves_leave_eagers_numbers(mode: str) -> None:
    for seed in range(1000, 1300):
        judge(seed, mode, "cpu")


class Reads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(4.0))
        self.table: Tensor
        self.register_buffer("table", torch.arange(4.0))

    def forward(self, x: Tensor) -> Any:
        x.add_(1)
        return x.sum() + (self.table * self.weight).sum() * 2


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["weight", "table"])
def test_what_a_module_reads_may_come_to_lie_in_a_written_argument(name: str, mode: str) -> None:
    torch._dynamo.reset()
    mine, theirs = Reads(), Reads()
    run = torch.compile(mine, backend="air", options={"mode": mode})
    with torch.no_grad():
        for moves in (False, False, True, False, True):
            arguments = torch.arange(8.0), torch.arange(8.0)
            for module, x in zip((mine, theirs), arguments, strict=True):
                getattr(module, name).data = x[2:6] if moves else torch.arange(4.0)
            assert run(arguments[0]) == theirs(arguments[1])
