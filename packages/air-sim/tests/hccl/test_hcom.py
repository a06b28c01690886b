"""Collectives inside graphs of the Graph Engine: TorchAir's max-autotune in two processes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from ranks import PRELUDE

pytestmark = pytest.mark.npu
Program = Callable[..., subprocess.CompletedProcess[str]]

GRAPHS = """
import json, torchair
from torchair.configs.compiler_config import CompilerConfig

N = RANKS

def all_reduce(x):
    y = x + 1
    dist.all_reduce(y)
    return y * 2

def all_reduce_max(x):
    y = x + 1
    dist.all_reduce(y, op=dist.ReduceOp.MAX)
    return y * 2

def all_gather(x):
    out = torch.zeros(N * x.shape[0], x.shape[1], device=x.device)
    dist.all_gather_into_tensor(out, x + 1)
    return out * 2

def reduce_scatter(x):
    out = torch.zeros(x.shape[0] // N, x.shape[1], device=x.device)
    dist.reduce_scatter_tensor(out, x + 1)
    return out * 2

def broadcast(x):
    y = x + 1
    dist.broadcast(y, 1)
    return y * 2

def all_to_all(x):
    out = torch.zeros_like(x)
    dist.all_to_all_single(out, x + 1)
    return out * 2

# Rank 0 keeps one row and sends three; rank 1 sends two and keeps two.
SENT = [[1, 3], [2, 2]]

def all_to_all_uneven(x):
    mine = SENT[dist.get_rank()]
    given = [row[dist.get_rank()] for row in SENT]
    out = torch.zeros(sum(given), x.shape[1], device=x.device)
    dist.all_to_all_single(out, x + 1, given, mine)
    return out * 2

def main(rank, port):
    start(rank, port)
    torchair.patch_for_hcom()
    both = [value(r, 4, 3) + 1 for r in range(N)]
    parts = [v.split(SENT[r]) for r, v in enumerate(both)]
    wanted = {
        all_reduce: sum(both),
        all_reduce_max: torch.maximum(*both),
        all_gather: torch.cat(both),
        reduce_scatter: sum(both).view(N, 2, 3)[rank],
        broadcast: both[1],
        all_to_all: torch.cat([v.view(N, 2, 3)[rank] for v in both]),
        all_to_all_uneven: torch.cat([part[rank] for part in parts]),
    }
    outcome = {}
    for function, expected in wanted.items():
        torch._dynamo.reset()
        backend = torchair.get_npu_backend(compiler_config=CompilerConfig())
        compiled = torch.compile(function, backend=backend, dynamic=False)
        try:
            with torch.no_grad():
                for _ in range(2):
                    assert_close(compiled(value(rank, 4, 3).npu()).cpu(), expected * 2)
            outcome[function.__name__] = "equal"
        except Exception as error:
            outcome[function.__name__] = type(error).__name__ + ": " + " ".join(str(error).split())[:400]
    os.write(1, f"OUTCOME {json.dumps(outcome)}\\n".encode())  # in one piece: the other rank writes here too
    torch.npu.synchronize(); dist.barrier(); torch.npu.synchronize()
    dist.destroy_process_group()

if __name__ == "__main__":
    launch(main)
"""


@pytest.mark.slow
def test_collectives_in_a_graph_of_the_graph_engine_equal_the_cpu(program: Program) -> None:
    done = program(PRELUDE + GRAPHS, devices=2, timeout_s=500)
    lines = [line for line in done.stdout.splitlines() if line.startswith("OUTCOME ")]
    assert len(lines) == 2, done.stdout[-500:] + done.stderr[-3000:]
    for line in lines:
        outcome = json.loads(line.removeprefix("OUTCOME "))
        assert {name: text for name, text in outcome.items() if text != "equal"} == {}
        assert len(outcome) == 7
