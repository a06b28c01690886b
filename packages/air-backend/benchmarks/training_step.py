"""A forward and a backward of a small transformer: host time, bytes that the halves copy, and memory between steps.

    AIR_SIM_NOOP=1 TASK_QUEUE_ENABLE=0 air-sim run python training_step.py

All rows run in one process, their rounds interleaved. autograd runs the backward in a thread of its own, so what counts
is the time on the wall. On air-sim the numbers are host time above the ACL boundary: kernels and copies do nothing, and
this is not the performance of an NPU. Memory is what torch_npu's allocator has given out after a step whose gradients
were dropped, beside that before the model was compiled, and the most during a step.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from air_backend import CompilerConfig, get_npu_backend

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "air-aclgraph" / "benchmarks"))

from _measure import NOTE, Row, interleave, numbers, show, table, write
from hot_path import torchair

WIDTH = 64


class Block(nn.Module):
    """Attention and two layers after it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        scores = (self.query(h) @ self.key(h).transpose(-1, -2)).softmax(-1)
        x = x + self.out(scores @ self.value(h))
        result: Tensor = x + self.down(nn.functional.gelu(self.up(self.after(x))))
        return result


@dataclass
class Step:
    """One way to run a step; it times itself, for the backward is no work of the calling thread."""

    name: str
    backend: Any
    x: Tensor
    blocks: int
    model: nn.Module = field(init=False)
    run: Callable[[Tensor], Tensor] = field(init=False)
    memory: tuple[float, float] = (0.0, 0.0)
    copied: float = 0.0

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(*(Block() for _ in range(self.blocks))).to(self.x.device)
        self.run = self.model if self.backend is None else torch.compile(self.model, backend=self.backend)

    def __call__(self) -> None:
        y = self.run(self.x)
        y.backward(y.detach())
        for parameter in self.model.parameters():
            parameter.grad = None

    def measure_memory(self) -> None:
        """After some steps: MiB given out between steps, and the most during one."""
        npu: Any = torch.get_device_module("npu")
        before = npu.memory_allocated()
        for _ in range(8):
            self()
        npu.reset_peak_memory_stats()
        bytes_before = counters["air"]["copied_bytes"]
        self()
        self.copied = (counters["air"]["copied_bytes"] - bytes_before) / 2**20
        self.memory = (
            (npu.memory_allocated() - before) / 2**20,
            (npu.max_memory_allocated() - before) / 2**20,
        )


def ours() -> Any:
    """AIR in mode reduce-overhead."""
    return get_npu_backend(compiler_config=CompilerConfig.from_options({"mode": "reduce-overhead"}))


def walls(rows: list[Row]) -> None:
    """What counts is the time on the wall."""
    for row in rows:
        row.samples = row.walls


def main() -> None:
    """Measures each way and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--batch", type=int, default=64)
    arguments = parser.parse_args()
    x = torch.randn(arguments.batch, 32, WIDTH).to("npu")
    ways = {"eager": None, "aot_eager": "aot_eager", "TorchAir": torchair(), "AIR": ours()}
    steps = [Step(name, backend, x, arguments.blocks) for name, backend in ways.items()]
    for step in steps:
        torch._dynamo.reset()
        step.measure_memory()
    rows = [Row(step.name, step) for step in steps]
    started = time.perf_counter()
    interleave(rows, rounds=arguments.rounds, device=None)
    walls(rows)
    base = rows[0].least_us, rows[0].median_us
    show(table(f"A training step of {arguments.blocks} blocks", rows, base, f"base: eager.  {NOTE}"))
    for step in steps:
        show(f"{step.name:<12} {step.memory[0]:7.1f} MiB between steps, {step.memory[1]:7.1f} at most")
    show(f"AIR copies {steps[-1].copied:.2f} MiB a step; measured in {time.perf_counter() - started:.0f} s")
    memory = {step.name: step.memory[1] for step in steps}
    write(arguments.json, {"training step": numbers(rows), "most MiB in a step": memory})


if __name__ == "__main__":
    main()
