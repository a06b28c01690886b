from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.npu
Program = Callable[..., subprocess.CompletedProcess[str]]


def run_plainly(source: str, tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "plain.py"
    script.write_text(source, encoding="utf-8")
    hidden = ("LD_LIBRARY_PATH", "ASCEND_HOME_PATH", "ASCEND_OPP_PATH")
    env = {
        k: v for k, v in os.environ.items() if k not in hidden and not k.startswith("AIR_SIM_")
    } | environment
    return subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=240, check=False, env=env
    )


def test_a_plain_process_needs_nothing_but_activate(tmp_path: Path) -> None:
    done = run_plainly(
        "import air_sim; air_sim.activate()\n"
        "import torch\n"
        "x = torch.randn(4, 4)\n"
        "assert torch.allclose((x.npu() @ x.npu()).cpu(), x @ x, atol=1e-5)\n"
        "print('device', x.npu().device)\n",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "device npu:0" in done.stdout


def test_children_started_in_any_way_inherit_the_device(tmp_path: Path) -> None:
    done = run_plainly(
        "import air_sim\n"
        "import multiprocessing, subprocess, sys\n"
        "def work(queue):\n"
        "    import torch\n"
        "    queue.put((torch.ones(3).npu() * 2).sum().item())\n"
        "if __name__ == '__main__':\n"
        "    air_sim.activate(soc='Ascend910B3')\n"
        "    code = 'import torch; print(torch.npu.get_device_name(0), torch.ones(2).npu().sum().item())'\n"
        "    print(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout)\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    queue = context.Queue()\n"
        "    child = context.Process(target=work, args=(queue,))\n"
        "    child.start(); print('spawned', queue.get(timeout=120)); child.join()\n",
        tmp_path,
    )
    assert "Ascend910B3 2.0" in done.stdout, done.stderr
    assert "spawned 6.0" in done.stdout


def test_activating_after_torch_npu_is_an_error_that_says_what_to_do(program: Program) -> None:
    done = program(
        "import os, torch, torch_npu\n"
        "os.environ.pop('AIR_SIM_ACTIVE')  # as if the toolkit were somebody else's\n"
        "import air_sim\n"
        "try: air_sim.activate()\n"
        "except air_sim.errors.TooLate as error: print('refused:', error)\n"
    )
    assert "before 'import torch'" in done.stdout, done.stderr


def test_a_second_activation_may_not_bring_other_switches(program: Program) -> None:
    done = program(
        "import air_sim\n"
        "air_sim.activate(); air_sim.activate(devices=2)\n"
        "try: air_sim.activate(devices=3)\n"
        "except air_sim.errors.AlreadyActive as error: print('refused:', error)\n",
        devices=2,
    )
    assert "refused:" in done.stdout, done.stderr
    assert "devices would not take effect" in done.stdout


def test_a_second_build_comes_from_the_cache(program: Program) -> None:
    done = program(
        "import air_sim, time\n"
        "start = time.monotonic(); first = air_sim.build(); second = air_sim.build()\n"
        "assert first.folder == second.folder and all(p.exists() for p in second.preload)\n"
        "print('cached', time.monotonic() - start < 5)\n"
    )
    assert "cached True" in done.stdout, done.stderr


def test_info_says_that_no_number_is_npu_performance() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "air_sim", "info"], capture_output=True, text=True, check=True
    )
    assert "No number measured on air-sim is NPU performance" in done.stdout
    assert "AIR_SIM_FAULT" in done.stdout


def test_the_device_is_what_the_switches_say_and_calls_are_counted_and_written_at_exit(
    started_program: Program, tmp_path: Path
) -> None:
    """In one process: each import of torch_npu takes seconds."""
    file = tmp_path / "counts"
    done = started_program(
        "import torch, torch_npu, air_sim\n"
        "air_sim.activate()\n"
        "torch.npu.set_device(0)\n"
        "print('devices', torch.npu.device_count())\n"
        "print('chip', torch.npu.get_device_name(0))\n"
        "print('memory', torch.npu.mem_get_info()[1] >> 30)\n"
        "print('cann', torch.npu.utils.get_cann_version())\n"
        "x = torch.ones(4).npu(); before = air_sim.calls('aclrtMemcpyAsync') + air_sim.calls('aclrtMemcpy')\n"
        "torch.npu.synchronize(); x.cpu()\n"
        "assert air_sim.calls('aclrtMemcpyAsync') + air_sim.calls('aclrtMemcpy') > before\n"
        "assert air_sim.counters()['aclrtSetDevice'] >= 1\n",
        count_file=file,
        devices=3,
        soc="Ascend910B4",
        memory="3GiB",
        cann="8.2.0",
    )
    assert done.returncode == 0, done.stderr
    told = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert told == {"devices": "3", "chip": "Ascend910B4", "memory": "3", "cann": "8.2.0"}
    assert "aclrtSynchronizeDevice" in file.read_text()


def test_noop_kernels_leave_memory_alone(program: Program) -> None:
    done = program(
        "import torch, air_sim; air_sim.activate()\n"
        "x = torch.full((4,), 3.0).npu(); torch.npu.synchronize()\n"
        "air_sim.change(noop=True); x.add_(1); torch.npu.synchronize(); air_sim.change(noop=False)\n"
        "print(x.cpu().tolist())\n"
    )
    assert "[3.0, 3.0, 3.0, 3.0]" in done.stdout, done.stderr
