"""What stops a graph from being lowered, told once for the whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from air_geir.errors import GeirError


class CannotConvert(GeirError):
    """A converter met arguments it has no translation for."""


class UseDecomposition(Exception):
    """A converter leaves this call to torch's decomposition."""


@dataclass(frozen=True)
class Unsupported:
    """One node that cannot be lowered."""

    target: str
    node: str
    reason: str
    source: str | None = None


class UnsupportedGraphError(GeirError):
    """Operators of a graph have no translation to Ascend IR; every one is listed."""

    def __init__(self, graph: str, found: Sequence[Unsupported]) -> None:
        self.graph = graph
        self.found = tuple(found)
        nodes = len(self.found)
        targets = dict.fromkeys(u.target for u in self.found)
        lines = [f"graph {graph}: {len(targets)} operators ({nodes} nodes) cannot be lowered to Ascend IR"]
        for target in targets:
            group = [u for u in self.found if u.target == target]
            lines.append(f"  {target} ({len(group)}x): {group[0].reason}")
            lines.extend(f"      {place}" for place in dict.fromkeys(u.source or u.node for u in group))
        super().__init__(
            "\n".join(lines),
            advice="register a converter (docs/writing-a-converter.md), give a decomposition, or run these parts "
            "eagerly with fallback='eager' (config.air.unsupported = 'eager')",
        )
