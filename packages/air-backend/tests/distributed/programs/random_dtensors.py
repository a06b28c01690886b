"""Programs of distributed tensors that nobody chose, against eager: values, placements, and inputs afterwards.

    PYTHONPATH=packages/air-backend/tests torchrun --nproc-per-node 2 \\
        -m distributed.programs.random_dtensors --programs 300
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from distributed.programs import judging

PLACES: tuple[Any, ...] = (Shard(0), Shard(1), Replicate(), Partial())
ROWS, STEPS = (4, 5, 6), 7

Value = Any
"""A tensor that is distributed, or a local one."""

UNARY: dict[str, Callable[[Value], Value]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "neg": torch.neg,
    "double": lambda x: x * 2,
    "shifted": lambda x: x + 1,
    "softmax": lambda x: torch.softmax(x, -1),
    "columns": lambda x: x.sum(-1, keepdim=True) + x,
    "rows": lambda x: x.mean(0, keepdim=True) * x,
    "total": lambda x: x + x.sum(),
    "gram": lambda x: (x @ x.t()) @ x,
    "turned": lambda x: x.t().contiguous().t(),
    "flat": lambda x: x.reshape(-1).reshape(x.shape),
    "folded": lambda x: x.unsqueeze(1).expand(-1, 2, -1).sum(1),
    "joined": lambda x: torch.cat([x, x], 0)[: x.shape[0]],
    "clone": torch.clone,
}
BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "add": torch.add,
    "mul": torch.mul,
    "maximum": torch.maximum,
    "where": lambda x, y: torch.where(x > 0, x, y),
    "product": lambda x, y: (x @ y.t()) @ y,
}


class Program:
    """A straight program over two inputs, drawn from a seed."""

    is_dynamic = False

    is_trained = False

    def __init__(self, seed: int, mesh: DeviceMesh) -> None:
        chance = random.Random(seed)
        self.mesh = mesh
        self.rows = chance.choice(ROWS)
        self.places = [chance.choice(PLACES) for _ in range(2)]
        self.steps = [self._step(chance, 2 + number) for number in range(chance.randrange(2, STEPS))]
        count = 2 + len(self.steps)
        self.returned = sorted({count - 1, *(chance.randrange(count) for _ in range(2))})
        self.local = {place for place in self.returned if chance.random() < 0.3}

    def _step(self, chance: random.Random, known: int) -> tuple[Any, ...]:
        kind, source = chance.random(), chance.randrange(known)
        if kind < 0.4:
            return "unary", chance.choice(sorted(UNARY)), source
        if kind < 0.6:
            return "binary", chance.choice(sorted(BINARY)), source, chance.randrange(known)
        if kind < 0.8:
            return "redistribute", chance.choice(PLACES[:3]), source
        if kind < 0.88:
            return "local", None, source
        return "write", chance.choice(("add_", "mul_")), chance.randrange(2), source

    def __call__(self, *inputs: DTensor) -> tuple[Value, ...]:
        values: list[Value] = list(inputs)
        for kind, what, *sources in self.steps:
            given = [values[source] for source in sources]
            if kind == "unary":
                values.append(UNARY[what](given[0]))
            elif kind == "binary":
                values.append(BINARY[what](*given))
            elif kind == "redistribute":
                values.append(given[0].redistribute(placements=[what]))
            elif kind == "local":
                whole = {"shape": given[0].shape, "stride": given[0].stride()}  # parts may be uneven
                local = given[0].to_local() * 2
                values.append(DTensor.from_local(local, self.mesh, given[0].placements, **whole))
            else:
                values.append(getattr(given[0], what)(given[1].redistribute(placements=given[0].placements)))
        return tuple(values[i].to_local() if i in self.local else values[i] for i in self.returned)

    def inputs(self, call: int) -> list[DTensor]:
        made = []
        for number, place in enumerate(self.places):
            torch.manual_seed(100 * call + number)
            whole = torch.randn(self.rows, 6).to(self.mesh.device_type)
            if isinstance(place, Partial):
                part = whole + dist.get_rank()
                made.append(DTensor.from_local(part, self.mesh, [place]))
            else:
                made.append(distribute_tensor(whole, self.mesh, [place]))
        return made

    def __str__(self) -> str:
        lines = [f"{self.rows} rows, inputs {self.places}"]
        lines += [f"  v{2 + number} = {step}" for number, step in enumerate(self.steps)]
        return "\n".join([*lines, f"  return {self.returned}, local {sorted(self.local)}"])


if __name__ == "__main__":
    judging.main(Program)
