"""The record of one compiled graph: what every other part of the package reports from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

import air_config
import air_streams
from air_aclgraph import HostConstant
from air_fxpasses import PipelineReport

Role = Literal["inference", "forward", "joint", "backward"]
"""`joint` is a forward that computes the gradients as well; its backward only scales them."""


@dataclass
class CompiledGraph:
    """The record of one graph: every step from the ATen graph to its executor."""

    name: str
    role: Role
    ground: torch.device
    settings: air_config.Settings
    plan: air_streams.StreamPlan
    passes: PipelineReport | None
    executor: str
    seconds: float
    nodes: int
    copies_removed: int
    """Copies into inputs (KV caches) that the passes turned into writes in place."""
    targets: Mapping[str, str]
    """The operators that the executor got, by the names of their nodes."""
    host_constants: Sequence[HostConstant] = ()
    """What the graph computed on the host from constants alone, and the device holds now."""
    awaited: air_streams.Awaited = field(default_factory=air_streams.Awaited)
    """What its tagged waits are for that comes from before the call."""
    is_dynamos: bool = False
    """Whether Dynamo asked for it, so that a reset of Dynamo closes it."""
    closed: bool = False
    """Whether a reset did."""
