"""Finds the line of the user's program behind an FX node.

Dynamo leaves the Python stack of the traced call in `node.meta["stack_trace"]`; the last frame is the line
the user wrote.  Errors and `explain()` name it.
"""

from __future__ import annotations

from torch.fx import Node

from air_aclgraph.errors import Where
from air_fxpasses import SourceLine


def where(node: Node | None) -> Where | None:
    """The user's line that made `node`, or None when the tracer kept no stack."""
    if node is None:
        return None
    line = SourceLine(node.meta.get("stack_trace") or "")
    return Where(line.file, line.line, line.code) if line.file else None
