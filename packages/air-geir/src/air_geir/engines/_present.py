"""Whether this process has an NPU for an engine to run on."""

from __future__ import annotations

import importlib.util
import sys

import torch

from air_geir.engines._protocol import Unavailable


def no_npu(engine: str) -> Unavailable | None:
    """Why there is none, for an engine that needs one; None where there is one."""
    if importlib.util.find_spec("torch_npu") is None:
        return Unavailable(engine, "torch_npu is not installed", "pip install air-backend[npu]")
    if "torch_npu" not in sys.modules:
        return Unavailable(engine, "torch_npu is not imported", "import torch_npu before compiling")
    if not torch.get_device_module("npu").is_available():
        return Unavailable(engine, "no NPU is visible", "check npu-smi, or run under air-sim")
    return None
