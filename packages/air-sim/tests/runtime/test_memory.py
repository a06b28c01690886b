from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.npu
Program = Callable[..., subprocess.CompletedProcess[str]]


def test_an_injected_allocation_failure_becomes_an_out_of_memory_error_once(program: Program) -> None:
    done = program(
        "import torch, air_sim; air_sim.activate()\n"
        "torch.ones(2).npu()\n"
        "air_sim.change(fault='oom@1')\n"
        "try: torch.empty(64 << 20, dtype=torch.uint8, device='npu'); print('not refused')\n"
        "except torch.OutOfMemoryError: print('refused')\n"
        "torch.empty(48 << 20, dtype=torch.uint8, device='npu'); print('works again')\n"
    )
    assert done.stdout.split()[-3:] == ["refused", "works", "again"], done.stdout + done.stderr


def test_memory_ends_at_its_limit_and_faults_where_it_is_protected_and_the_host_touches_it(
    program: Program,
) -> None:
    """One program for both, since each has to be started: memory beyond the limit is refused, and it goes on."""
    beyond = (
        "import torch\n"
        "torch.npu.set_device(0)\n"
        "try: torch.empty(200 << 20, dtype=torch.uint8, device='npu')\n"
        "except torch.OutOfMemoryError as error: print('refused:', str(error)[:60])\n"
        "print('still works', torch.ones(2).npu().sum().item())\n"
    )
    source = (
        "import ctypes, torch\n"
        "x = torch.full((4,), 7.0).npu(); torch.npu.synchronize()\n"
        "print('kernel', (x + 1).cpu().tolist(), flush=True)\n"
        "print('host', ctypes.c_float.from_address(x.data_ptr()).value)\n"
    )
    protected = program(beyond + source, protect=1, memory="64MiB")
    assert "refused:" in protected.stdout, protected.stderr
    assert "still works 2.0" in protected.stdout
    assert "kernel [8.0, 8.0, 8.0, 8.0]" in protected.stdout, protected.stderr
    assert protected.returncode != 0
    assert "the host touched device memory directly" in protected.stderr
    assert "host 7.0" in program(source).stdout


@pytest.mark.slow
def test_graphs_and_blas_work_on_protected_memory(program: Program) -> None:
    done = program(
        "import torch\n"
        "x = torch.randn(8, 8); d = torch.zeros(8, 8).npu(); torch.npu.synchronize()\n"
        "g = torch.npu.NPUGraph()\n"
        "with torch.npu.graph(g): y = torch.relu(d @ d) + 1\n"
        "d.copy_(x); g.replay()\n"
        "print('equal', torch.allclose(y.cpu(), torch.relu(x @ x) + 1, atol=1e-4))\n",
        protect=1,
        memory="1GiB",
    )
    assert "equal True" in done.stdout, done.stderr


def test_expandable_segments_map_and_unmap(program: Program) -> None:
    done = program(
        "import os; os.environ['PYTORCH_NPU_ALLOC_CONF'] = 'expandable_segments:True'\n"
        "import torch\n"
        "x = [torch.full((1 << 20,), float(i)).npu() for i in range(8)]\n"
        "print('sums', [int(t[:3].sum().item()) for t in x]); del x; torch.npu.empty_cache()\n"
        "print('again', torch.ones(3).npu().sum().item())\n"
        "import air_sim; print('mapped', air_sim.calls('aclrtMapMem') > 0, air_sim.calls('aclrtUnmapMem') > 0)\n"
    )
    assert "mapped True True" in done.stdout, done.stdout + done.stderr
    assert "sums [0, 3, 6, 9, 12, 15, 18, 21]" in done.stdout, done.stderr
    assert "again 3.0" in done.stdout


def test_memory_of_expandable_segments_is_the_devices_and_is_counted(program: Program) -> None:
    done = program(
        "import os; os.environ['PYTORCH_NPU_ALLOC_CONF'] = 'expandable_segments:True'\n"
        "import torch, torch_npu, air_sim\n"
        "free = torch.npu.mem_get_info()[0]\n"
        "x = torch.ones(64 << 20, dtype=torch.uint8).npu()\n"
        "print('used', free - torch.npu.mem_get_info()[0] >= 64 << 20)\n"
        "try: torch.empty(2 << 30, dtype=torch.uint8, device='npu')\n"
        "except torch.OutOfMemoryError: print('refused')\n"
        "air_sim.change(fault='oom@1')\n"
        "try: torch.empty(128 << 20, dtype=torch.uint8, device='npu')\n"
        "except torch.OutOfMemoryError: print('injected')\n"
        "air_sim.change(fault='')\n"
        "del x; torch.npu.empty_cache(); print('again', torch.npu.mem_get_info()[0] == free)\n",
        memory="1GiB",
    )
    assert "used True\nrefused\ninjected\nagain True" in done.stdout, done.stdout + done.stderr[-3000:]
