"""Static kernels in several processes of torchrun over air-sim."""

from __future__ import annotations

import json
import os
import re
import signal
import time

import pytest

from static_kernel.sandbox import LIMIT_S, Sandbox, answers, torchrun

pytestmark = pytest.mark.npu("static kernels are made by CANN's compiler")


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_S11_ranks_share_one_compilation_and_read_whole_libraries(sandbox: Sandbox, count: int) -> None:
    words = torchrun(count, str(sandbox.build), "--alone", "1")
    found = answers(sandbox.run(*words, devices=count, install_delay_s=0.3).stdout)
    assert [a["rank"] for a in found] == list(range(count))
    assert [a["warnings"] for a in found] == [[]] * count
    assert sorted(a["reports"][0]["compiled"] for a in found) == [0] * (count - 1) + [3]
    assert sum(a["reports"][0]["installed"] for a in found) == 1
    shapes = [[report["key"] for report in a["reports"]] for a in found]
    assert shapes == [[[2]], [[2], [3]], *[[[2]]] * (count - 2)], "rank 1 compiles a second shape alone"
    whole = {3, 6}  # the kernels of one package, or of both
    assert all(a["kernels"] in whole for a in found)
    assert found[1]["kernels"] == 6
    assert len(sandbox.compilations) == 2
    assert sandbox.installed == [], "the last rank has uninstalled"


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_S11_an_installer_that_fails_half_way_is_reported_by_every_rank(sandbox: Sandbox, count: int) -> None:
    words = torchrun(count, str(sandbox.build))
    found = answers(sandbox.run(*words, devices=count, install_delay_s=0.2, install_fail=2).stdout)
    assert [a["kernels"] for a in found] == [0] * count, "nobody has read the half that was there"
    for answer in found:
        (text,) = answer["warnings"]
        assert "arranged failure after 2 of 3 kernels" in text
        assert re.search(r"stage +install", text)
    assert len(sandbox.compilations) == 1
    assert sandbox.installed == []


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_S11_a_crash_of_the_compiling_rank_is_reported_by_all_others(sandbox: Sandbox, count: int) -> None:
    job = sandbox.start(*torchrun(count, str(sandbox.build), "--deaf"), devices=count, op_compiler_delay_s=60)
    deadline = time.monotonic() + LIMIT_S
    while len(list(sandbox.build.glob("*_outputs/*_outputs/*_opcompile"))) < count:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(1)
    (attempts,) = (sandbox.root / "tmp").glob("*/*/attempts.json")
    leader = json.loads(attempts.read_text())[-1]
    os.kill(leader["pid"], signal.SIGKILL)
    died = time.time()
    out, err = job.communicate(timeout=LIMIT_S)
    assert job.returncode != 0
    found = answers(out)
    assert len(found) == count - 1, out + err[-4000:]
    for answer in found:
        (text,) = answer["warnings"]
        assert f"rank {leader['rank']} (process {leader['pid']})" in text
        assert answer["ended"] - died < 10
