"""Stands for the device module that TorchAir's build makes for its tests: here torch_npu over air-sim is the device.

Those tests rename torch's private device and register a module for it; torch_npu has done both, and torch refuses a
second time.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import torch

importlib.import_module("torch_npu")
npu: Any = vars(torch)["npu"]
backend = types.ModuleType("_privateuse1_backend")
backend.__dict__.update(
    npu_device=lambda: torch.device("npu:0"),
    register_generator=lambda *_: None,
    register_hook=lambda *_: None,
    default_generator=lambda index: npu.default_generators[index],
)
sys.modules["_privateuse1_backend"] = backend
vars(torch)["_register_device_module"] = lambda *_: None
vars(torch.utils)["rename_privateuse1_backend"] = lambda *_: None
