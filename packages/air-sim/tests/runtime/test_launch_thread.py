"""torch_npu launches from a thread that a failed call ends for good: afterwards nothing may be garbage, or silent."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
import torch

import air_sim

npu = pytest.importorskip("torch_npu").npu

pytestmark = pytest.mark.npu
Program = Callable[..., subprocess.CompletedProcess[str]]

PRELUDE = """
import air_sim, torch, torch_npu
npu, x = torch.npu, torch.ones(4).npu()
side, outside, graph = npu.Stream(), npu.Event(), npu.NPUGraph()
with npu.stream(side):
    x * 3
    outside.record()
npu.synchronize()

def attempt(name, function):
    try: print(name, "gave", function(), flush=True)
    except RuntimeError as error: print(name, "raised", " ".join(str(error).split()), flush=True)

def capture():
    with npu.graph(graph):
        npu.current_stream().wait_event(outside)  # the driver refuses it, in the launch thread
"""

USES = """
attempt("capture", capture)
for _ in range(2):
    attempt("operator", lambda: (x + 1).cpu())
    attempt("copy", lambda: x.cpu())
    attempt("synchronise", npu.synchronize)
attempt("recover", air_sim.recover)
"""


def outcomes(done: subprocess.CompletedProcess[str], *names: str) -> list[str]:
    lines = [line for line in done.stdout.splitlines() if line.startswith(names)]
    assert lines, done.stdout + done.stderr[-3000:]
    return lines


def test_after_a_failed_launch_every_use_of_the_device_raises_and_says_why(program: Program) -> None:
    done = program(PRELUDE + USES, timeout_s=400)
    (first,) = outcomes(done, "capture")
    # torch_npu asks whether its launch thread failed, and does not wait for it: the next use may be the first to hear
    assert "107024" in first or first == "capture gave None"
    later = outcomes(done, "operator", "copy", "synchronise", "recover")
    assert len(later) == 7
    assert [line for line in later if " gave " in line] == []
    for line in later:
        assert "Start a new process" in line
        assert "waits for an event recorded outside the capture" in line


@pytest.mark.slow
def test_without_the_task_queue_a_failed_launch_leaves_the_process_usable(program: Program) -> None:
    done = program("import os; os.environ['TASK_QUEUE_ENABLE'] = '0'\n" + PRELUDE + USES, timeout_s=400)
    assert "107024" in outcomes(done, "capture")[0]
    assert outcomes(done, "operator") == ["operator gave tensor([2., 2., 2., 2.])"] * 2


def test_a_function_missing_in_the_launch_thread_is_named_by_whatever_comes_later(program: Program) -> None:
    done = program(
        "import os; os.environ['TASK_QUEUE_ENABLE'] = '2'\n"
        + PRELUDE
        + """
y = torch.randn(2, 4, 8).npu()
attempt("missing", lambda: torch_npu.npu_mhc_post(y, None, y, y).cpu())
attempt("operator", lambda: (x + 1).cpu())
""",
        timeout_s=400,
    )
    (missing,), (later,) = outcomes(done, "missing"), outcomes(done, "operator")
    assert " gave " not in missing + later
    assert "air-sim does not implement this aclnn function" in later


def test_an_operator_of_the_older_kind_is_an_error_of_its_stream(device: str) -> None:
    x = torch.rand(3, 4, device=device)
    npu.synchronize()

    def status() -> None:
        torch.ops.npu.npu_get_float_status(x)
        npu.synchronize()

    with pytest.raises(RuntimeError, match=r"(?s)507015.*aclop NPUGetFloatStatusV2: air-sim has no kernel"):
        status()
    with pytest.raises(RuntimeError, match="507015"):
        (x + 1).cpu()
    air_sim.recover()
    assert torch.equal((x + 1).cpu(), x.cpu() + 1)


def test_a_launch_that_a_fault_refuses_ends_the_launch_thread_as_any_other(program: Program) -> None:
    refused = 'air_sim.change(fault="aclnnRelu@1")\nattempt("operator", lambda: x.relu().cpu())\n'
    done = program(PRELUDE + refused + USES, timeout_s=400)
    assert "aclnnRelu" in outcomes(done, "operator")[0]
    assert "start a new process" in outcomes(done, "recover")[0]
