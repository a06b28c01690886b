"""Where in the user's program a node comes from."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from typing import Final

from torch.fx import Node

_FRAME: Final = re.compile(
    r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in [^\n]*)?(?:\n(?P<code>[^\n]*))?', re.M
)


@dataclass(frozen=True)
class SourceLine:
    """One line of the user's code, and the node it became."""

    node: str
    file: str = ""
    line: int = 0
    code: str = ""

    def __str__(self) -> str:
        if not self.file:
            return f"node {self.node}"
        code = f": {self.code}" if self.code else ""
        return f"{self.file}:{self.line}{code} (node {self.node})"


def source_of(node: Node) -> SourceLine:
    """The innermost line of the node's stack trace, or only its name when it has none."""
    trace = node.meta.get("stack_trace") or ""
    frames = list(_FRAME.finditer(trace))
    if not frames:
        return SourceLine(node.name)
    own = [frame for frame in frames if not _is_ours(frame["file"])] or frames
    last = own[-1]
    return SourceLine(node.name, last["file"], int(last["line"]), (last["code"] or "").strip())


def has_line(node: Node) -> bool:
    """Whether the node's trace names a line of the user's, not only of the wrappers it was called through."""
    return any(not _is_ours(frame["file"]) for frame in _FRAME.finditer(node.meta.get("stack_trace") or ""))


def calling_line() -> str:
    """The innermost line of the running program that is neither torch's nor a wrapper's; empty without one.

    For a graph whose nodes name no line: Dynamo compiled a wrapper by itself, and the user's code is what called it.
    """
    for frame in reversed(traceback.extract_stack()):
        file = frame.filename.replace("\\", "/")
        if not any(part in file for part in _MACHINERY) and not file.startswith("<"):
            return f"{frame.filename}:{frame.lineno}: {frame.line}"
    return ""


_MACHINERY: Final = ("/torch/", "/air_streams/", "/air_backend/", "/air_aclgraph/", "/contextlib.py")
_WRAPPERS: Final = (
    "/air_streams/scope.py",
    "/air_streams/ops.py",
    "/air_streams/_events.py",
    "/air_backend/_collectives.py",
    "/torch/distributed/_functional_collectives.py",
)


def _is_ours(file: str) -> bool:
    return file.replace("\\", "/").endswith(_WRAPPERS)
