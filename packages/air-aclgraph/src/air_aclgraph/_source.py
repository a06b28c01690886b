"""Finds the line of the user's program behind an FX node.

Dynamo leaves the Python stack of the traced call in `node.meta["stack_trace"]`; the last frame is the line
the user wrote.  Errors and `explain()` name it.
"""

from __future__ import annotations

import re
from typing import Final

from torch.fx import Node

from air_aclgraph.errors import Where

_FRAME: Final = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*(?:\n\s*(?P<code>[^\n]*))?')


def where(node: Node | None) -> Where | None:
    """The user's line that made `node`, or None when the tracer kept no stack."""
    if node is None:
        return None
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    if not frames:
        return None
    last = frames[-1]
    return Where(last["file"], int(last["line"]), (last["code"] or "").strip())
