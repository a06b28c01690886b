"""Faults of the device, injected by air-sim: each has a cause, a line and advice, and the next call works."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from aclgraph_backend import Backend, executable
from air_aclgraph import AcceleratorRuntime, Executable
from air_aclgraph.device._npu import launches_block
from air_aclgraph.errors import CaptureFailed, ResourcesExhausted

air_sim = pytest.importorskip("air_sim")
pytestmark = pytest.mark.npu("air-sim injects the faults")

BY_SEGMENTS = pytest.mark.skipif(
    "expandable_segments" in os.environ.get("PYTORCH_NPU_ALLOC_CONF", ""),
    reason="the allocator asks for parts of what it needs",
)
MEBI = 1 << 20
GIBI = 1 << 30


def npu() -> Any:
    """The device module of torch_npu."""
    return torch.get_device_module("npu")


@pytest.fixture(autouse=True)
def _mended() -> Iterator[None]:
    if air_sim.active() is None:
        pytest.skip("air-sim injects the faults")
    yield
    air_sim.change(fault="", streams=1984, events=65535, kernel_timeout_ms=0, sticky=True)
    air_sim.recover()


def large(x: Tensor) -> tuple[Tensor, ...]:
    y = torch.cat([x] * 8)
    return (y * 2 + torch.cat([y, y])[: len(y)],)


def others_can_allocate() -> None:
    """Ends an arranged lack of memory: it lasts while the same size is asked for."""
    air_sim.change(fault="")
    torch.empty(100 * MEBI, dtype=torch.uint8, device="npu")
    npu().empty_cache()


def right(run: Executable, x: Tensor) -> bool:
    return torch.equal(run(x)[0].cpu(), large(x.cpu())[0])


@BY_SEGMENTS
@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_device_without_memory_in_the_middle_of_a_capture_gives_everything_back(number: int) -> None:
    x = torch.randn(MEBI, device="npu")
    runtime = AcceleratorRuntime("npu:0")
    run = executable(large, x, device="npu", runtime=runtime, air__warmup=0)
    run(x)
    run.close()
    npu().empty_cache()
    before = npu().memory_allocated()
    run = executable(large, x, device="npu", runtime=runtime, air__warmup=0)
    air_sim.change(fault=f"oom@{number}")
    with pytest.raises(ResourcesExhausted) as caught:
        run(x)
    others_can_allocate()
    error = caught.value
    assert error.resource == "memory"
    assert error.graph == "large"
    assert "largest shape first" in error.advice
    del caught, error
    run.invalidate()
    assert npu().memory_allocated() <= before + 8 * MEBI * 4
    for _ in range(3):
        assert right(run, x)
    assert run.stats()["capture_failures"] == 1
    assert run.stats()["captures"] == 1


def test_memory_that_the_allocator_only_keeps_serves_a_capture() -> None:
    """Inside a capture the allocator gives nothing back: graphs that were closed had taken a device whole."""

    def roomy(x: Tensor) -> tuple[Tensor, ...]:
        room = x.new_empty(GIBI)
        room[: len(x)].copy_(x)
        return (room[: len(x)] + 1,)

    x = torch.arange(4.0, device="npu")
    run = executable(roomy, x, device="npu", runtime=AcceleratorRuntime("npu:0"), air__warmup=0)
    kept = [torch.empty(2 * GIBI, dtype=torch.uint8, device="npu") for _ in range(15)]
    del kept
    assert npu().memory_reserved() >= 30 * GIBI
    assert run(x)[0].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert run.stats()["captures"] == 1
    npu().empty_cache()


@BY_SEGMENTS
def test_the_line_that_ran_out_of_memory_is_named() -> None:
    def step(x: Tensor) -> Tensor:
        y = x * 2
        return torch.cat([y] * 16)  # the line that needs memory

    backend = Backend("npu", AcceleratorRuntime("npu:0"), air__warmup=0)
    compiled: Any = torch.compile(step, backend=backend)
    x = torch.randn(MEBI, device="npu")
    with torch.no_grad():
        air_sim.change(fault="oom@2")  # the first is for y
        with pytest.raises(torch.OutOfMemoryError, match=r"test_faults.py:\d+.*# the line that needs memory"):
            compiled(x)
        others_can_allocate()
        torch.testing.assert_close(compiled(x), step(x))


def streams_in_use(limit: int = 2000) -> int:
    import ctypes

    runtime = ctypes.CDLL(str(air_sim.active().folder / "libascendcl.so"))
    for streams in range(limit):
        air_sim.change(streams=streams)
        handle = ctypes.c_void_p()
        if runtime.aclrtCreateStream(ctypes.byref(handle)) == 0:
            runtime.aclrtDestroyStream(handle)
            return streams - 1
    raise AssertionError("every stream is in use")


def test_a_capture_without_a_stream_says_what_to_reduce_and_the_next_call_works() -> None:
    run = executable(
        lambda x: (x * 2,), torch.ones(64, device="npu"), device="npu", air__warmup=0, dynamic=True
    )
    run(torch.ones(64, device="npu"))
    gc.collect()
    npu().synchronize()
    air_sim.change(streams=streams_in_use() + 2)

    def capture_on() -> None:
        for rows in range(100, 110):
            run(torch.ones(rows, device="npu"))

    with pytest.raises(ResourcesExhausted) as caught:
        capture_on()
    assert caught.value.code in (207005, 207008)
    assert "static_capture_size_limit" in caught.value.advice
    assert caught.value.key[0] in range(100, 110)
    held = len(run.keys())
    assert torch.rand(2, device="npu").sum().isfinite(), "nothing is left in the state of a capture"
    assert run(torch.ones(64, device="npu"))[0].sum() == 128, "what was captured before is not touched"
    air_sim.change(streams=1984)
    for rows in range(100, 110):
        assert run(torch.ones(rows, device="npu"))[0].sum() == 2 * rows
    assert len(run.keys()) > held


def test_a_users_pool_that_a_failed_capture_spoilt_is_refused_by_name() -> None:
    pool = npu().graph_pool_handle()
    run = executable(lambda x: (x * 2,), torch.ones(4, device="npu"), device="npu", air__warmup=0,
                     aclgraph_config__use_custom_pool=pool)  # fmt: skip
    run(torch.ones(4, device="npu"))
    run.invalidate()
    npu().synchronize()
    air_sim.change(streams=streams_in_use())
    with pytest.raises(ResourcesExhausted):
        run(torch.ones(4, device="npu"))
    air_sim.change(streams=1984)
    with pytest.raises(CaptureFailed, match="left unusable"):
        run(torch.ones(4, device="npu"))


@pytest.mark.skipif(launches_block(), reason="the launch waits, and is what fails")
def test_a_kernel_that_fails_before_a_capture_is_reported_with_its_cause() -> None:
    x, side = torch.randn(64, device="npu"), npu().Stream()
    run = executable(large, x, device="npu")
    npu().synchronize()
    air_sim.change(fault="kernel_error@1")
    with npu().stream(side), pytest.raises(CaptureFailed, match="a kernel failed on the device") as caught:
        run(x)
    assert caught.value.code == 507015
    air_sim.change(fault="")
    air_sim.recover()
    for _ in range(3):
        assert right(run, x)


BLOCKING = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, air_sim
from aclgraph_backend import Backend
from air_aclgraph.errors import ReplayFailed
air_sim.activate()

def doubled(x):
    return x * 2 + 1

x = torch.ones(64, device="npu")
run = torch.compile(doubled, backend=Backend("npu"))
with torch.no_grad():
    run(x)
    run(x)
    for fault in ("kernel_error@1", "hang@1"):
        torch.npu.synchronize()
        air_sim.change(fault=fault, kernel_timeout_ms=200)
        try:
            run(x)
        except ReplayFailed as error:
            print(error)
        air_sim.change(fault="", kernel_timeout_ms=0)
        air_sim.recover()
        print("then", run(x).sum().item())
"""


def test_a_replay_that_waits_for_the_device_translates_the_code(tmp_path: Path) -> None:
    script = tmp_path / "blocking.py"
    script.write_text(BLOCKING)
    done = subprocess.run(
        [sys.executable, "-m", "air_sim", "run", sys.executable, str(script), str(Path(__file__).parents[1])],
        env={**os.environ, "ASCEND_LAUNCH_BLOCKING": "1"}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    told = done.stdout.split("then 192.0")
    assert len(told) == 3, done.stdout + done.stderr
    for text, cause, code in (
        (told[0], "a kernel failed on the device", "507015"),
        (told[1], "a kernel ran into its time limit", "507014"),
    ):
        assert f"a replay of graph0 failed: {cause}" in text
        assert code in text
        assert "return x * 2 + 1" in text
        assert "run_eagerly" in text


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    "function", ["aclmdlRICaptureBegin", "aclmdlRIGetId", "aclrtSetStreamAttribute", "aclmdlRICaptureEnd"]
)
def test_a_first_capture_that_the_driver_refuses_leaves_nothing_behind(function: str, number: int) -> None:
    """The first two calls are those of the capture that keeps a pool, and of the graph's."""
    x = torch.randn(64, device="npu")
    run = executable(large, x, device="npu", runtime=AcceleratorRuntime("npu:0"), air__warmup=0)
    npu().synchronize()
    air_sim.change(fault=f"{function}@{number}")
    with pytest.raises(CaptureFailed, match="507899"):
        run(x)
    air_sim.change(fault="")
    assert torch.rand(2, device="npu").sum().isfinite(), "nothing is left in the state of a capture"
    for _ in range(3):
        assert right(run, x)


UNDER_A_SETTING = """
import torch, air_sim
from aclgraph_backend import Backend
run = torch.compile(lambda x: x * 2 + 1, backend=Backend("npu"))
x = torch.ones(64, device="npu")
with torch.no_grad():
    for _ in range(3):
        print("gave", run(x).sum().item())
"""


def under(setting: str, source: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Runs a program that has this setting of torch_npu from the start."""
    script = tmp_path / "program.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(Path(__file__).parents[1])!r})\n{source}")
    name, _, value = setting.partition("=")
    others = {each: text for each, text in os.environ.items() if each != "ASCEND_LAUNCH_BLOCKING"}
    return subprocess.run(
        [sys.executable, "-m", "air_sim", "run", sys.executable, str(script)],
        env={**others, name: value}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def test_a_queue_under_which_torch_npu_captures_nothing_is_named_with_the_setting(tmp_path: Path) -> None:
    done = under("TASK_QUEUE_ENABLE=2", UNDER_A_SETTING, tmp_path)
    assert "CaptureFailed: the capture failed: torch_npu captures nothing" in done.stderr
    assert "start the process with TASK_QUEUE_ENABLE=1" in done.stderr


PATCHED = """
import pytest, torch, test_updates as tests
from air_aclgraph import AcceleratorRuntime
inputs = tests.made_inputs()
recording = tests.recorded(inputs)
for lengths in ((9, 3), (4, 7), (4, 7), (2, 8), (16, 1)):
    assert tests.is_right(recording, inputs, *lengths)
print("right")
"""


def test_lengths_are_patched_before_a_replay_that_the_host_waits_for(tmp_path: Path) -> None:
    source = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{PATCHED}"
    done = under("ASCEND_LAUNCH_BLOCKING=1", source, tmp_path)
    assert done.stdout.strip().endswith("right"), done.stderr[-3000:]
