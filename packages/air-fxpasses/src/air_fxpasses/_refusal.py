"""Why a pass left something alone, as data."""

from __future__ import annotations

from dataclasses import dataclass

from torch.fx import Node

from air_graph import SourceLine, source_of


@dataclass(frozen=True, slots=True)
class Refusal:
    """A "no" with its reason: which node was left as it is, and the node that forbids the change."""

    reason: str
    node: str
    source: SourceLine | None = None
    target: str = ""
    at: str = ""
    at_source: SourceLine | None = None

    @classmethod
    def of(cls, reason: str, node: Node, at: Node | None = None) -> Refusal:
        """A refusal about `node`; `at` is the node that makes the change wrong."""
        return cls(
            reason,
            node.name,
            source_of(node),
            str(node.target),
            "" if at is None else at.name,
            None if at is None else source_of(at),
        )

    def to_dict(self) -> dict[str, str]:
        """The refusal as plain text fields, for JSON and logs."""
        return {
            "reason": self.reason,
            "node": self.node,
            "target": self.target,
            "source": str(self.source or ""),
            "at": self.at,
            "at_source": str(self.at_source or ""),
        }

    def __str__(self) -> str:
        text = f"{self.node} ({self.target}): {self.reason}" if self.target else f"{self.node}: {self.reason}"
        if self.at:
            text += f" (at {self.at})"
        return f"{text}\n    {self.source}" if self.source else text
