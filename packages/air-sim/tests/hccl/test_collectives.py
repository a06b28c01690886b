"""Collectives between two processes over shared memory, eager and captured."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from ranks import PRELUDE

pytestmark = pytest.mark.npu
Program = Callable[..., subprocess.CompletedProcess[str]]

COLLECTIVES = """
def operations(rank):
    n, other = RANKS, 1 - rank
    everybody = lambda *shape, step=0: [value(r, *shape, step=step) for r in range(n)]
    x, total = torch.zeros(1003).npu(), None
    gathered, piece, matrix = torch.zeros(n * 6).npu(), torch.zeros(5).npu(), torch.zeros(n * 5).npu()
    exchanged = torch.zeros(n * 4).npu()
    return {
        "all_reduce": (x, (1003,), lambda: dist.all_reduce(x), lambda s: (x, sum(everybody(1003, step=s)))),
        "all_gather": (piece_in := torch.zeros(6).npu(), (6,), lambda: dist.all_gather_into_tensor(gathered, piece_in),
                       lambda s: (gathered, torch.cat(everybody(6, step=s)))),
        "reduce_scatter": (matrix, (n * 5,), lambda: dist.reduce_scatter_tensor(piece, matrix),
                           lambda s: (piece, sum(everybody(n * 5, step=s)).view(n, 5)[rank])),
        "broadcast": (b := torch.zeros(7).npu(), (7,), lambda: dist.broadcast(b, 1),
                      lambda s: (b, value(1, 7, step=s))),
        "all_to_all": (a := torch.zeros(n * 4).npu(), (n * 4,), lambda: dist.all_to_all_single(exchanged, a),
                       lambda s: (exchanged, torch.cat([v.view(n, 4)[rank] for v in everybody(n * 4, step=s)]))),
        "send_recv": (c := torch.zeros(9).npu(), (9,),
                      lambda: dist.send(c, 1) if rank == 0 else dist.recv(c, 0), lambda s: (c, value(0, 9, step=s))),
    }

def main(rank, port):
    start(rank, port)
    for name, (given, shape, run, outcome) in operations(rank).items():
        given.copy_(value(rank, *shape)); run()
        got, wanted = outcome(0); assert_close(got.cpu(), wanted, msg=lambda m: name + ": " + m)
        graph = captured(run)
        for step in (1, 2, 3):
            given.copy_(value(rank, *shape, step=step)); graph.replay()
            got, wanted = outcome(step); assert_close(got.cpu(), wanted, msg=lambda m: name + " captured: " + m)
    torch.npu.synchronize(); dist.barrier(); torch.npu.synchronize()
    dist.destroy_process_group()

if __name__ == "__main__":
    launch(main)
"""


def test_every_collective_gives_the_right_result_eagerly_and_in_a_replay(program: Program) -> None:
    done = program(PRELUDE + COLLECTIVES, devices=2, timeout_s=400)
    assert "all ranks agree" in done.stdout, done.stdout + done.stderr[-3000:]


@pytest.mark.slow
def test_types_and_reductions_agree_with_the_cpu(program: Program) -> None:
    done = program(
        PRELUDE
        + """
def main(rank, port):
    start(rank, port)
    ops = {"SUM": lambda a, b: a + b, "MAX": torch.maximum, "MIN": torch.minimum}
    for kind in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.int8):
        for op, reference in ops.items():
            both = [(value(r, 301) * 10).to(kind) for r in range(2)]
            x = both[rank].npu(); dist.all_reduce(x, getattr(dist.ReduceOp, op))
            assert torch.equal(x.cpu(), reference(*both)), (kind, op)
    big = value(rank, 1 << 20).npu(); dist.all_reduce(big)   # more than the wires hold at once
    assert_close(big.cpu(), value(0, 1 << 20) + value(1, 1 << 20))
    torch.npu.synchronize(); dist.destroy_process_group()

if __name__ == "__main__":
    launch(main)
""",
        devices=2,
        timeout_s=400,
    )
    assert "all ranks agree" in done.stdout, done.stdout + done.stderr[-3000:]


def test_ranks_in_different_collectives_get_an_error_that_names_both(program: Program) -> None:
    done = program(
        PRELUDE
        + """
def main(rank, port):
    start(rank, port)
    x = torch.ones(4).npu(); dist.all_reduce(x); torch.npu.synchronize()
    try:
        dist.broadcast(x, 0) if rank == 0 else dist.all_reduce(x)
        torch.npu.synchronize()
        if rank == 1: print("not noticed", flush=True)
    except RuntimeError as error:
        said = str(error).replace("\\n", " ")
        os.write(1, f"rank {rank} {said}\\n".encode())  # in one piece: the other rank writes here too
    os._exit(0)

if __name__ == "__main__":
    launch(main)
""",
        devices=2,
        timeout_s=400,
    )
    assert "is in broadcast" in done.stdout, done.stdout + done.stderr[-3000:]
    assert "is in all-reduce" in done.stdout
    assert "not noticed" not in done.stdout
