"""Programs of collectives that nobody chose, between tensors of each rank, against eager.

    PYTHONPATH=packages/air-backend/tests torchrun --nproc-per-node 2 \\
        -m distributed.programs.random_collectives --programs 300

Collectives in place, into buffers, into lists of views, by a handle that is waited for later, functional ones, and
those with a gradient; on arguments, parts of arguments and values; in all ranks, in a group of the same ranks, and
in a group of one. Between them the ranks compute and write.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from distributed.programs import judging

ROWS, COLUMNS, STEPS = 4, 6, 8
SUMS: dict[str, Any] = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX, "min": dist.ReduceOp.MIN}
COMPUTED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "mul": lambda x, y: x * y.tanh(),
    "relu": lambda x, y: x.relu() - y,
    "by rank": lambda x, y: x * (dist.get_rank() + 1),
    "turned": lambda x, y: (x.t() + 1).t().contiguous(),
    "clone": lambda x, y: x.clone(),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "total": lambda x, y: x + y.amax(),
}
PARTS: dict[str, Callable[[Tensor], Tensor]] = {
    "whole": lambda x: x,
    "rows": lambda x: x[1:3],
    "a row": lambda x: x[2],
    "flat": lambda x: x.view(-1),
    "columns": lambda x: x[:, 1:3],
    "turned": lambda x: x.t(),
}
DENSE = ("whole", "rows", "a row", "flat")
"""What a collective may be given in place: gloo takes the memory of anything else as if it were dense."""


def spread(x: Tensor, size: int) -> Tensor:
    """Values of as many ranks as there are, from one."""
    return torch.cat([x + number for number in range(size)])


class Collectives:
    """The collectives that a step may name, in one group of ranks."""

    def __init__(self, group: Any) -> None:
        self.group, self.size = group, dist.get_world_size(group)

    def gather_into(self, x: Tensor) -> Tensor:
        out = x.new_empty(self.size * ROWS, COLUMNS)
        dist.all_gather_into_tensor(out, x.contiguous(), group=self.group)
        return out[-ROWS:]

    def gather_list(self, x: Tensor) -> Tensor:
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(self.size)]
        dist.all_gather(parts, x.contiguous(), group=self.group)
        return parts[0] * 2 + parts[-1]

    def gather_views(self, x: Tensor) -> Tensor:
        buffer = x.new_zeros(self.size, ROWS, COLUMNS)
        dist.all_gather(list(buffer.unbind(0)), x.contiguous(), group=self.group)
        return buffer.sum(0)

    def gather_waited(self, x: Tensor) -> Tensor:
        out = x.new_empty(self.size * ROWS, COLUMNS)
        work = dist.all_gather_into_tensor(out, x.contiguous(), group=self.group, async_op=True)
        other = x.sin()
        work.wait()
        return out[:ROWS] + other

    def scatter(self, x: Tensor) -> Tensor:
        out = x.new_empty(ROWS, COLUMNS)
        dist.reduce_scatter_tensor(out, spread(x, self.size), group=self.group)
        return out

    def exchange(self, x: Tensor) -> Tensor:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        dist.all_to_all_single(out, x.contiguous(), group=self.group)
        return out

    def exchange_unevenly(self, x: Tensor) -> Tensor:
        splits = [ROWS] if self.size == 1 else [1, ROWS - 1] + [0] * (self.size - 2)
        rank = dist.get_rank(self.group)
        taken = [splits[rank]] * self.size
        out = x.new_empty(sum(taken), COLUMNS)
        dist.all_to_all_single(out, x.contiguous(), taken, splits, group=self.group)
        return x + out.sum(0)

    def reduced(self, x: Tensor) -> Any:
        return functional.all_reduce(x, "sum", self.group)

    def averaged(self, x: Tensor) -> Any:
        return functional.all_reduce(x * 2, "avg", self.group) + 1

    def sent(self, x: Tensor) -> Any:
        return functional.broadcast(x, 0, self.group)

    def gathered(self, x: Tensor) -> Any:
        return functional.all_gather_tensor(x, 1, self.group)[:, -COLUMNS:]

    def scattered(self, x: Tensor) -> Any:
        return functional.reduce_scatter_tensor(spread(x, self.size), "sum", 0, self.group)

    def exchanged(self, x: Tensor) -> Any:
        return functional.all_to_all_single(x, None, None, self.group)

    def together(self, x: Tensor) -> Any:
        first, second = functional.all_reduce_coalesced([x + 1, x * 2], "sum", self.group)
        return first - second


class Trained(Collectives):
    """Those that have a gradient."""

    def gathered(self, x: Tensor) -> Any:
        return functional.all_gather_tensor_autograd(x, 0, self.group)[:ROWS]

    def scattered(self, x: Tensor) -> Any:
        return functional.reduce_scatter_tensor_autograd(spread(x, self.size), "sum", 0, self.group)

    def exchanged(self, x: Tensor) -> Any:
        return functional.all_to_all_single_autograd(x, None, None, self.group)


INTO = (
    "gather_into",
    "gather_list",
    "gather_views",
    "gather_waited",
    "scatter",
    "exchange",
    "exchange_unevenly",
)
FUNCTIONAL = ("reduced", "sent", "gathered", "scattered", "exchanged", "together", "averaged")
TRAINED = ("gathered", "scattered", "exchanged")


class Program:
    """A straight program over three inputs, drawn from a seed."""

    is_dynamic = False

    def __init__(self, seed: int, mesh: DeviceMesh) -> None:
        chance = random.Random(seed)
        self.device = mesh.device_type
        self.groups = groups(mesh)
        self.is_trained = chance.random() < 0.2
        self.dtype = (
            torch.float32 if self.is_trained else chance.choice((torch.float32, torch.float64, torch.int32))
        )
        self.turned = chance.random() < 0.2
        drawn = self._trained if self.is_trained else self._step
        self.busy: dict[int, int] = {}
        self.steps: list[tuple[Any, ...]] = []
        self.known = 3
        for _ in range(chance.randrange(2, STEPS)):
            drawn(chance)
        self.returned = sorted({self.known - 1, *(chance.randrange(self.known) for _ in range(3))})
        self._settle(*list(self.busy))

    def _settle(self, *values: int) -> None:
        """What is under way is waited for before it is used."""
        for value in values:
            if value in self.busy:
                self.steps.append(("wait", self.busy.pop(value)))

    def _made(self, *step: Any) -> None:
        self.steps.append(step)
        self.known += 1

    def _operands(self, chance: random.Random) -> tuple[int, int, str]:
        """Two values and a group."""
        return chance.randrange(self.known), chance.randrange(self.known), chance.choice(list(self.groups))

    def _trained(self, chance: random.Random) -> None:
        source, other, group = self._operands(chance)
        if chance.random() < 0.5:
            self._made("computed", chance.choice(sorted(COMPUTED)), source, other)
        else:
            self._made("trained", chance.choice(TRAINED), source, group)

    def _step(self, chance: random.Random) -> None:
        source, other, group = self._operands(chance)
        kind, part = chance.random(), chance.choice(sorted(PARTS))
        dense = chance.choice(("whole",) if self.turned and source == 0 else DENSE)
        if kind < 0.2:
            self._settle(source, other)
            self._made("computed", chance.choice(sorted(COMPUTED)), source, other)
        elif kind < 0.35:
            self._settle(source, other)
            self.steps.append(("write", part, source, other))
        elif kind < 0.55:
            self._settle(source)
            self.steps.append(("in place", chance.choice(sorted(SUMS)), dense, source, group))
        elif kind < 0.7:
            self._settle(source)
            self.busy[source] = len(self.steps)
            self.steps.append(("started", chance.choice(("reduce", "send")), dense, source, group))
        elif kind < 0.85:
            self._settle(source)
            self._made("into", chance.choice(INTO), source, group)
        else:
            self._settle(source)
            self._made(
                "functional",
                chance.choice(FUNCTIONAL if self.dtype.is_floating_point else FUNCTIONAL[:-1]),
                source,
                group,
            )

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values: list[Tensor] = list(inputs)
        works: dict[int, Any] = {}
        for number, (kind, *said) in enumerate(self.steps):
            if kind == "wait":
                works[said[0]].wait()
            elif kind == "computed":
                values.append(COMPUTED[said[0]](values[said[1]], values[said[2]]))
            elif kind == "write":
                PARTS[said[0]](values[said[1]]).add_(PARTS[said[0]](values[said[2]]))
            elif kind == "in place":
                dist.all_reduce(PARTS[said[1]](values[said[2]]), op=SUMS[said[0]], group=self.groups[said[3]])
            elif kind == "started":
                part, group = PARTS[said[1]](values[said[2]]), self.groups[said[3]]
                if said[0] == "reduce":
                    works[number] = dist.all_reduce(part, group=group, async_op=True)
                else:
                    works[number] = dist.broadcast(part, group_src=0, group=group, async_op=True)
            else:
                kinds = Trained if kind == "trained" else Collectives
                made = getattr(kinds(self.groups[said[2]]), said[0])(values[said[1]])
                values.append(functional.wait_tensor(made) if kind == "functional" else made)
        return tuple(values[i] for i in self.returned)

    def inputs(self, call: int) -> list[Tensor]:
        made = []
        for number in range(3):
            torch.manual_seed(100 * call + 10 * number + dist.get_rank())
            drawn = (
                torch.randn(COLUMNS, ROWS) * 4
                if self.turned and number == 0
                else torch.randn(ROWS, COLUMNS) * 4
            )
            placed = drawn.to(self.dtype).to(self.device)
            made.append(placed.t() if placed.shape[0] == COLUMNS else placed)
        return made

    def __str__(self) -> str:
        lines = [f"{self.dtype}, trained: {self.is_trained}, first input turned: {self.turned}"]
        lines += [f"  {number}: {step}" for number, step in enumerate(self.steps)]
        return "\n".join([*lines, f"  return {self.returned}"])


KNOWN: dict[str, Any] = {}


def groups(mesh: DeviceMesh) -> dict[str, Any]:
    """All ranks, the same ranks in a group of their own, and this rank alone."""
    if not KNOWN:
        size = dist.get_world_size()
        KNOWN["all"] = dist.group.WORLD
        KNOWN["same"] = dist.new_group(list(range(size)))
        alone = [dist.new_group([rank]) for rank in range(size)]
        KNOWN["alone"] = alone[dist.get_rank()]
    return KNOWN


if __name__ == "__main__":
    judging.main(Program)
