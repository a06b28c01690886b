"""Whether torch_npu will load is decided once, for the `air` command and for the doctor."""

from __future__ import annotations

import ctypes.util
import importlib.util
import sys
import types

import pytest
from _pytest.monkeypatch import MonkeyPatch

from air_backend import _npu_plugin
from air_backend._npu_plugin import SWITCH, keep_unloaded, npu_plugin


@pytest.fixture(autouse=True)
def machine(monkeypatch: MonkeyPatch) -> None:
    """torch_npu installed, no CANN, torch not imported."""
    for name in (SWITCH, "ASCEND_HOME_PATH", "AIR_SIM_ACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delitem(sys.modules, "torch_npu", raising=False)
    monkeypatch.delitem(sys.modules, "torch")
    real = importlib.util.find_spec
    found = lambda name, *rest: types.SimpleNamespace() if name == "torch_npu" else real(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", found)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)


def test_a_torch_npu_without_cann_is_kept_from_loading_with_the_way_to_air_sim(
    monkeypatch: MonkeyPatch,
) -> None:
    monkeypatch.setenv(SWITCH, "1")
    said = keep_unloaded()
    assert said is not None
    assert "there is no CANN" in said
    assert "--sim" in said
    assert npu_plugin().state == "without CANN"
    assert keep_unloaded() is None, "it is said once"


@pytest.mark.parametrize("variable", ["ASCEND_HOME_PATH", "AIR_SIM_ACTIVE"])
def test_with_cann_or_air_sim_torch_loads_it(monkeypatch: MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    assert npu_plugin().state == "loads"
    assert keep_unloaded() is None


def test_with_cann_a_switch_that_is_off_is_the_reason(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: "libascendcl.so")
    monkeypatch.setenv(SWITCH, "0")
    assert npu_plugin().state == "switched off"
    assert SWITCH in npu_plugin().advice


def test_a_loaded_one_and_a_missing_one_are_told_apart(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_npu", types.ModuleType("torch_npu"))
    assert npu_plugin().state == "loaded"
    monkeypatch.delitem(sys.modules, "torch_npu")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None)
    assert npu_plugin().state == "missing"
    assert _npu_plugin.INSTALL in npu_plugin().advice
    assert keep_unloaded() is None
