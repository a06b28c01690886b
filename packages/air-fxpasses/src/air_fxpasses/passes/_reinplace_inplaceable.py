"""Writes results into intermediate values that nobody needs any more.

    a = mm(x, w); b = add(a, 1); return b        ->        a = mm(x, w); b = add_(a, 1); return b

Only memory that the graph itself allocated is written: inputs are the other pass's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch.fx import GraphModule, Node

from air_fxpasses._facts import Facts
from air_fxpasses._pass import Pass, PassResult
from air_fxpasses.passes._reinplace import run_over


@dataclass(frozen=True)
class ReinplaceInplaceable(Pass):
    """Reinplaces operators whose argument is an intermediate value."""

    name: ClassVar[str] = "reinplace_inplaceable"
    option: ClassVar[str] = "debug.aclgraph.disable_reinplace_inplaceable_ops_pass"
    places_values: ClassVar[bool] = True

    off_because: str = ""
    """When not empty, the pass does nothing and gives this as the reason for every candidate."""
    pointwise: bool = True
    """Whether operators that compute each element by itself are candidates; what fuses them needs them as values."""

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        def in_scope(home: Node) -> bool:
            return True

        return run_over(
            facts,
            into_inputs=False,
            in_scope=in_scope,
            off_because=self.off_because,
            pointwise=self.pointwise,
        )
