"""Writes results into intermediate values that are not needed any more.

    a = mm(x, w); b = add(a, 1); return b        ->        a = mm(x, w); b = add_(a, 1); return b

Only memory that the graph itself allocated is written: inputs are the other pass's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.fx import Node

from air_fxpasses._facts import Facts
from air_fxpasses.passes._reinplace import Reinplacing


@dataclass(frozen=True)
class ReinplaceInplaceable(Reinplacing):
    """Reinplaces operators whose argument is an intermediate value."""

    name: ClassVar[str] = "reinplace_inplaceable"
    option: ClassVar[str] = "debug.aclgraph.disable_reinplace_inplaceable_ops_pass"
    into_inputs: ClassVar[bool] = False

    pointwise: bool = True
    """Whether operators that compute each element by itself are candidates; what fuses them needs them as values."""

    def in_scope(self, facts: Facts, home: Node) -> bool:
        return True

    def is_candidate(self, node: Node) -> bool:
        is_taken = self.pointwise or torch.Tag.pointwise not in getattr(node.target, "tags", ())
        return is_taken and super().is_candidate(node)
