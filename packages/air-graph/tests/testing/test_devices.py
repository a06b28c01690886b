"""Tests that take a device run on the CPU and on the accelerator; what cannot run is skipped with a reason."""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from air_graph.testing import devices

forking = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
CONFTEST = """
from air_graph.testing import devices

def pytest_configure(config):
    for mark in ("npu", "accelerator"):
        config.addinivalue_line("markers", mark)

def pytest_generate_tests(metafunc):
    devices.spread(metafunc)

def pytest_collection_modifyitems(items):
    devices.skip_absent(items)
"""
TESTS = """
import pytest
import torch

def test_of_each(device):
    assert torch.ones(2, device=device).sum() == 2

def test_of_the_accelerator(accelerator):
    assert torch.accelerator.current_accelerator().type == accelerator

@pytest.fixture
def made(device):
    return torch.ones(1, device=device)

def test_through_a_fixture(made, device):
    assert made.device.type == device

@pytest.mark.parametrize(("device", "number"), [("cpu", 1), ("meta", 2)])
def test_with_devices_of_its_own(device, number):
    assert torch.ones(number, device=device).device.type == device

@pytest.mark.npu("only this operator's schema asks for it")
def test_of_npus():
    raise AssertionError("there is none")
"""


def run_pytest(folder: Path, arguments: list[str]) -> None:
    gc.freeze()  # what other tests left may wait for threads that a fork does not have
    os.chdir(folder)
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *arguments]))


def ran(folder: Path, *arguments: str) -> dict[str, str]:
    """What became of each test: "passed", or the reason that it was skipped. A fork need not import torch."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(TESTS)
    results = folder / "results.xml"
    results.unlink(missing_ok=True)
    given = [f"--junitxml={results}", *arguments]
    done = multiprocessing.get_context("fork").Process(target=run_pytest, args=(folder, given))
    done.start()
    done.join(300)
    assert done.exitcode == 0
    told = {}
    for case in ElementTree.parse(results).iter("testcase"):
        skipped = case.find("skipped")
        told[case.attrib["name"]] = "passed" if skipped is None else skipped.attrib["message"]
    return told


def test_the_accelerator_is_the_one_torch_names() -> None:
    current = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    assert devices.accelerator() == (None if current is None else current.type)


@forking
@pytest.mark.skipif(torch.accelerator.is_available(), reason="what is told where there is none")
def test_without_an_accelerator_the_cpu_is_tested_and_the_rest_skipped_with_its_reason(
    tmp_path: Path,
) -> None:
    absent = "needs an accelerator: an NPU, air-sim (--sim) or a CUDA device"
    assert ran(tmp_path) == {
        "test_of_each[cpu]": "passed",
        "test_of_each[npu]": absent,
        "test_of_the_accelerator[npu]": absent,
        "test_through_a_fixture[cpu]": "passed",
        "test_through_a_fixture[npu]": absent,
        "test_with_devices_of_its_own[cpu-1]": "passed",
        "test_with_devices_of_its_own[meta-2]": "passed",
        "test_of_npus": "needs an NPU, or air-sim (--sim): only this operator's schema asks for it",
    }


@forking
@pytest.mark.skipif(torch.accelerator.is_available(), reason="what is chosen where there is none")
def test_the_marks_choose_what_runs_on_an_accelerator(tmp_path: Path) -> None:
    chosen = set(ran(tmp_path, "-m", "accelerator"))
    assert chosen == {"test_of_each[npu]", "test_of_the_accelerator[npu]", "test_through_a_fixture[npu]"}
    assert set(ran(tmp_path, "-m", "not npu")) == {
        "test_of_each[cpu]", "test_through_a_fixture[cpu]",
        "test_with_devices_of_its_own[cpu-1]", "test_with_devices_of_its_own[meta-2]",
    }  # fmt: skip
