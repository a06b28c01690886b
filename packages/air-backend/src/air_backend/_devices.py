"""Decides on which ground a graph runs, and refuses what no ground serves.

A graph belongs to the accelerator that its tensors live on; CPU tensors beside them (host-side lengths, scalars)
do not change that. A graph of CPU tensors alone runs on the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import torch
from torch import fx

from air_backend.errors import MixedDevices, SecondDevice, UnsupportedDevice
from air_graph import example_tensors, source_of

SERVED: Final[dict[str, tuple[str, ...]]] = {
    "reduce-overhead": ("npu", "cuda", "cpu"),
    "npugraph_ex": ("npu", "cuda", "cpu"),
    "max-autotune": ("npu", "cpu"),
}
KNOWN: Final = ("npu", "cuda", "cpu")

_npu_of_process: list[torch.device] = []


def devices_of(gm: fx.GraphModule) -> Iterator[tuple[torch.device, fx.Node]]:
    """The device of every tensor in the graph, with the node that has it."""
    for node in gm.graph.nodes:
        yield from ((tensor.device, node) for tensor in example_tensors(node))


def _line(node: fx.Node) -> str | None:
    """The user's innermost line that made a node, as torch recorded it."""
    line = source_of(node)
    return None if line is None else str(line)


def ground_of(gm: fx.GraphModule) -> torch.device:
    """The device a graph runs on; raises where no mode serves it or where it uses several."""
    first: dict[torch.device, fx.Node] = {}
    for device, node in devices_of(gm):
        if device.type not in ("cpu", "meta") and (device not in first or not source_of(first[device])):
            first[device] = node  # an input has no line of its own: its first use does
    for device, node in first.items():
        if device.type not in KNOWN:
            raise UnsupportedDevice(device.type, "any", KNOWN, _line(node))
    if len(first) > 1:
        names = tuple(str(device) for device in first)
        raise MixedDevices(names, _line(list(first.values())[-1]))
    return _one_npu(next(iter(first), torch.device("cpu")))


def serve(ground: torch.device, mode: str) -> None:
    """Raises when the mode does not run on the ground."""
    if ground.type not in SERVED[mode]:
        raise UnsupportedDevice(ground.type, mode, SERVED[mode])


def _one_npu(ground: torch.device) -> torch.device:
    """Holds a process to the first NPU it compiled for."""
    if ground.type != "npu":
        return ground
    if not _npu_of_process:
        _npu_of_process.append(ground)
    if _npu_of_process[0] != ground:
        raise SecondDevice(str(_npu_of_process[0]), str(ground))
    return ground


def forget_device() -> None:
    """Lets the process choose its NPU again; for `reset()`."""
    _npu_of_process.clear()
