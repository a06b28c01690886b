"""The line of the user's program an FX node comes from."""

from __future__ import annotations

import re

from torch import fx

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in [^\n]*\n?\s*([^\n]*)')


def source_of(node: fx.Node) -> str | None:
    """`model.py:88  logits = self.head(x)`, or None when the graph does not say."""
    trace = node.meta.get("stack_trace") or node.stack_trace
    if not trace:
        return None
    at = trace.rfind('File "')
    match = _FRAME.match(trace, at) if at >= 0 else None
    return f"{match[1]}:{match[2]}  {match[3].strip()}".rstrip() if match else None
