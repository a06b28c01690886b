"""Programs as forks: they are given what a started program is given, and one that goes wrong harms nobody."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from air_sim import forks

pytestmark = pytest.mark.npu


def test_a_program_has_arguments_variables_a_folder_and_the_device(tmp_path: Path) -> None:
    source = (
        "import os, sys, torch\n"
        "print(sys.argv[1:], os.environ['MINE'], os.getcwd(), __name__)\n"
        "print(torch.ones(3).npu().sum().item(), torch.npu.device_count())\n"
    )
    done = forks.run(source, "a", "b", variables={"MINE": "yes"}, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == [f"['a', 'b'] yes {tmp_path} __main__", "3.0 2"]
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_dies_leaves_the_others_alone() -> None:
    died = forks.run("import os\nos.abort()")
    raised = forks.run("raise ValueError('what I did not expect')")
    left = forks.run("import sys\nsys.exit(7)")
    assert (died.returncode, raised.returncode, left.returncode) == (-6, 1, 7)
    assert "what I did not expect" in raised.stderr
    assert "program.py" in raised.stderr
    assert forks.run("print('alive')").stdout == "alive\n"


def test_nothing_is_left_of_a_program_for_the_next_one() -> None:
    first = (
        "import os, sys, torch\nos.environ['MINE'] = 'yes'\ntorch.mine = 1\n"
        "sys.modules['mine'] = torch\ntorch.ones(2).npu()"
    )
    assert forks.run(first).returncode == 0
    asked = (
        "import os, sys, torch\nprint('MINE' in os.environ, hasattr(torch, 'mine'), 'mine' in sys.modules)"
    )
    assert forks.run(asked).stdout == "False False False\n"


def test_a_program_that_takes_too_long_is_ended_and_what_it_said_is_told() -> None:
    with pytest.raises(subprocess.TimeoutExpired) as ended:
        forks.run("import time\nprint('begun', flush=True)\ntime.sleep(600)", timeout_s=3)
    assert ended.value.output == "begun\n"


def test_switches_that_the_import_fixes_are_no_forks() -> None:
    assert forks.serve({})
    assert forks.serve({"noop": True, "devices": 2})
    assert not forks.serve({"devices": 3})
    assert not forks.serve({"memory": "1GiB"})
