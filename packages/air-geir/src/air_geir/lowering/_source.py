"""The line of the user's program an FX node comes from."""

from __future__ import annotations

from torch import fx

from air_fxpasses import SourceLine


def source_of(node: fx.Node) -> str | None:
    """`model.py:88  logits = self.head(x)`, or None when the graph does not say."""
    line = SourceLine(node.meta.get("stack_trace") or node.stack_trace or "")
    return f"{line.file}:{line.line}  {line.code}".rstrip() if line.file else None
