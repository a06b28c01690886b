"""A device with its number: `npu` is the one that is current, and the CPU has none."""

from __future__ import annotations

import torch


def with_index(device: torch.device | str) -> torch.device:
    """The one device that is meant."""
    device = torch.device(device)
    index: int | None = device.index
    if device.type == "cpu":
        return torch.device("cpu")
    if index is None:
        index = torch.get_device_module(device).current_device()
    return torch.device(device.type, index)
