"""Finds the best ground on this machine: an NPU, a CUDA device, or the CPU."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from typing import Final, Literal

import torch

SIMULATED: Final = (
    "on air-sim: only host time above the ACL boundary is real, nothing here is NPU performance"
)


@dataclass(frozen=True)
class Ground:
    """A device to run on, the modes that serve it, and what must be said with its numbers."""

    device: torch.device
    modes: tuple[str, ...]
    note: str

    def synchronize(self) -> None:
        if self.device.type != "cpu":
            torch.accelerator.synchronize()


def is_simulated() -> bool:
    """Whether the NPU of this process is air-sim."""
    return bool(os.environ.get("AIR_SIM_ACTIVE"))


def npu_present() -> bool:
    """Whether torch_npu is installed and reports a device."""
    if importlib.util.find_spec("torch_npu") is None:
        return False
    device_module = getattr(torch, "npu", None)
    return device_module is not None and bool(device_module.is_available())


def best_ground() -> Ground:
    """NPU before CUDA before CPU."""
    found = ground_named("npu") or ground_named("cuda") or ground_named("cpu")
    assert found is not None, "the CPU is always there"
    return found


def ground_named(kind: Literal["npu", "cuda", "cpu"]) -> Ground | None:
    """The ground of a kind of device; None where this machine has none."""
    both = ("reduce-overhead", "max-autotune")
    if kind == "cpu":
        return Ground(torch.device("cpu"), both, "host runtime and reference engine: plain CPU tensors")
    if kind == "cuda":
        if not torch.cuda.is_available():
            return None
        return Ground(torch.device("cuda"), both[:1], "max-autotune serves npu and cpu tensors only")
    if not npu_present():
        return None
    device = torch.device("npu", torch.get_device_module("npu").current_device())
    return Ground(device, both, SIMULATED if is_simulated() else "")
