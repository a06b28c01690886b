"""Programs of distributed tensors that nobody chose, against eager: values, placements, and inputs afterwards.

    PYTHONPATH=packages/air-backend/tests torchrun --nproc-per-node 2 \\
        -m distributed.programs.random_dtensors --programs 300

A program is drawn from a seed, the same in every rank. What eager refuses is drawn again; what `aot_eager` refuses, or
computes otherwise than eager, is torch's own and counted. Rank 0 prints a line for each program that differs.
"""

from __future__ import annotations

import argparse
import datetime
import random
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from air_backend import get_npu_backend
from air_backend.demo import parallel

MODES = ("reduce-overhead", "max-autotune")
LIMIT = datetime.timedelta(seconds=120)
PLACES: tuple[Any, ...] = (Shard(0), Shard(1), Replicate(), Partial())
ROWS, CALLS, STEPS = (4, 5, 6), 3, 7

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
            return "local", chance.choice(PLACES), source
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
                values.append(DTensor.from_local(given[0].to_local() * 2, self.mesh, given[0].placements))
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


def difference(ours: Sequence[Value], theirs: Sequence[Value]) -> str | None:
    """How two lists of values differ."""
    for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if type(one) is not type(other):
            return f"value {index} is a {type(one).__name__} instead of a {type(other).__name__}"
        if isinstance(one, DTensor):
            if one.placements != other.placements or one.shape != other.shape:
                return f"value {index} has {one.placements} of {one.shape} instead of {other.placements}"
            one, other = one.to_local(), other.to_local()
        if one.shape != other.shape or not torch.allclose(one, other, rtol=1e-3, atol=1e-3, equal_nan=True):
            return f"value {index} differs"
    return None


def verdict(program: Program, function: Callable[..., Any]) -> str | None:
    """What is wrong with some calls of a compiled program; None where nothing is."""
    for call in range(CALLS):
        ours, theirs = program.inputs(call), program.inputs(call)
        expected = program(*theirs)
        try:
            found = function(*ours)
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:300]}"
        told = difference([*found, *ours], [*expected, *theirs])
        if told is not None:
            return f"call {call}: {told}"
    return None


def agreed(told: str | None) -> str | None:
    """What the first rank says that has something to say: all ranks go the same way."""
    said: list[str | None] = [None] * dist.get_world_size()
    dist.all_gather_object(said, told)
    return next((one for one in said if one is not None), None)


def judged(seed: int, mesh: DeviceMesh, mode: str) -> tuple[str, str]:
    """One program: equal, refused by eager, torch's own, or different, with what is to be said."""
    program = Program(seed, mesh)
    torch._dynamo.reset()
    with torch.no_grad():
        try:
            refused = None
            program(*program.inputs(0))
        except Exception as error:
            refused = str(error)
        if (why := agreed(refused)) is not None:
            return "refused by eager", why
        backend = get_npu_backend(compiler_config=parallel.config_of(mode))
        told = agreed(verdict(program, torch.compile(program, backend=backend, dynamic=False)))
        if told is None:
            return "equal", ""
        torch._dynamo.reset()
        aot = torch.compile(program, backend="aot_eager", dynamic=False)
        return ("different" if agreed(verdict(program, aot)) is None else "torch's own"), told


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu", choices=tuple(parallel.BACKENDS))
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--programs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    device = parallel.device_of(options.device)
    dist.init_process_group(parallel.BACKENDS[options.device], timeout=LIMIT)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    counts: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.programs):
        mode = options.modes[seed % len(options.modes)]
        how, told = judged(seed, mesh, mode)
        counts[how] += 1
        if how in ("different", "torch's own") and dist.get_rank() == 0:
            print(f"seed {seed}, {mode}, {how}: {told}\n{Program(seed, mesh)}", flush=True)
    if dist.get_rank() == 0:
        print("programs: " + ", ".join(f"{count} {how}" for how, count in sorted(counts.items())), flush=True)
    if device.type == "npu":
        torch.accelerator.synchronize()
    dist.destroy_process_group()
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
