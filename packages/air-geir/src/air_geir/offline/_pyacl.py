"""CANN's Python module `acl`: found, started, and its error codes as errors."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, Final

import torch

from air_geir.errors import EngineError, EngineUnavailableError

_STARTED_BEFORE: Final = 100002
"""Code of `acl.init` in a process that has done so."""
ADVICE: Final = (
    "install CANN and source its set_env.sh, which puts the module on PYTHONPATH, or run under air-sim"
)


def missing_module() -> str | None:
    """Why the module cannot be used here."""
    if "acl" not in sys.modules and importlib.util.find_spec("acl") is None:
        return "CANN's Python module acl is not there"
    return None


def started(device: int | None = None) -> Any:
    """The module, with its runtime started and a device chosen: torch's, where torch_npu is imported."""
    if reason := missing_module():
        raise EngineUnavailableError(f"offline models cannot be loaded: {reason}", advice=ADVICE)
    try:
        acl: Any = importlib.import_module("acl")
    except ImportError as error:
        raise EngineUnavailableError(
            f"offline models cannot be loaded: CANN's Python module acl cannot be imported: {error}",
            advice=ADVICE,
        ) from error
    if torch_works_on_npu():
        npu = torch.get_device_module("npu")
        if device is not None and device != npu.current_device():
            raise EngineError(
                f"the model is wanted on device {device}, torch works on npu:{npu.current_device()}",
                advice="torch.npu.set_device(...) before the model is loaded, or leave device out",
            )
        npu.current_stream()  # starts the runtime
        return acl
    if (failed := acl.init()) not in (0, _STARTED_BEFORE):
        checked(acl, failed, "start the runtime")
    checked(acl, acl.rt.set_device(device or 0), f"use device {device or 0}")
    return acl


def torch_works_on_npu() -> bool:
    """Whether tensors of this process may lie on an NPU."""
    return "torch_npu" in sys.modules and bool(torch.get_device_module("npu").is_available())


def soc_name() -> str:
    """The chip of this machine, as `atc` wants it named."""
    return str(started().get_soc_name())


def checked(acl: Any, failed: int, doing: str, where: str | None = None, advice: str = "") -> None:
    """An error for a code that is not 0, in CANN's words."""
    if failed:
        said = str(acl.get_recent_err_msg() or "").strip()
        raise EngineError(
            f"CANN failed to {doing}: {said or 'no message'}"
            + ("" if str(failed) in said else f" (error {failed})"),
            where=where,
            advice=advice or "ASCEND_GLOBAL_LOG_LEVEL=1 shows CANN's own log",
        )
