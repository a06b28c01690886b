"""Where in the user's program a node comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from torch.fx import Node

_FRAME: Final = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\n\s*(?P<code>.*)'
)
# Files whose lines stand between the user's and the operator: wrappers that Dynamo traces into.
_WRAPPERS: Final = (
    "/air_streams/scope.py",
    "/air_streams/ops.py",
    "/air_backend/ops.py",
    "/air_backend/_collectives.py",
    "/torch/distributed/_functional_collectives.py",
)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """The line of user code a node was traced from; the trace is only parsed when somebody looks."""

    trace: str

    def _frame(self) -> re.Match[str] | None:
        frames = list(_FRAME.finditer(self.trace))
        own = [frame for frame in frames if not frame["file"].replace("\\", "/").endswith(_WRAPPERS)]
        innermost = own or frames
        return innermost[-1] if innermost else None

    @property
    def file(self) -> str:
        frame = self._frame()
        return frame["file"] if frame else ""

    @property
    def line(self) -> int:
        frame = self._frame()
        return int(frame["line"]) if frame else 0

    @property
    def code(self) -> str:
        frame = self._frame()
        return frame["code"].strip() if frame else ""

    def __str__(self) -> str:
        frame = self._frame()
        if frame is None:
            return self.trace.strip()
        return f"{frame['file']}:{frame['line']}   {frame['code'].strip()}"


def source_of(node: Node) -> SourceLine | None:
    """The innermost user frame recorded on `node`, if tracing recorded one."""
    trace = node.meta.get("stack_trace")
    return SourceLine(trace) if isinstance(trace, str) else None
