"""The line of the user's program that a node was traced from.

Dynamo leaves the Python stack of a traced call in `node.meta["stack_trace"]`. Its last frame is the line the user
wrote, unless that is a wrapper of ours or of torch that the tracer went through.
"""

from __future__ import annotations

import functools
import re
import traceback
import warnings
from dataclasses import dataclass
from typing import Final

from torch.fx import Graph, Node

_FRAME: Final = re.compile(
    r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in [^\n]*)?(?:\n(?P<code>[^\n]*))?', re.M
)

#: So many traces are kept with the frame that was found: the nodes of one call have the same.
_TRACES: Final = 256

#: Files whose lines stand between the user's and the operator: wrappers that Dynamo traces into.
_WRAPPERS: Final = (
    "/air_streams/scope.py",
    "/air_streams/ops.py",
    "/air_streams/_events.py",
    "/air_backend/ops.py",
    "/air_backend/_collectives.py",
    "/torch/distributed/_functional_collectives.py",
)
#: Every line below is between the user's and the operator.
_TRANSFORMS: Final = "/torch/_functorch/"
_MACHINERY: Final = (
    "/torch/",
    "/torch_npu/",
    "/air_graph/",
    "/air_streams/",
    "/air_fxpasses/",
    "/air_aclgraph/",
    "/air_geir/",
    "/air_backend/",
    "/contextlib.py",
)


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's program; the trace is only parsed when it is asked for its parts."""

    trace: str

    @classmethod
    def at(cls, file: str, line: int, code: str = "") -> SourceLine:
        """A line that is known otherwise than from a trace."""
        return cls(f'File "{file}", line {line}\n    {code}')

    @property
    def file(self) -> str:
        frame = _innermost(self.trace)
        return frame["file"] if frame else ""

    @property
    def line(self) -> int:
        frame = _innermost(self.trace)
        return int(frame["line"]) if frame else 0

    @property
    def code(self) -> str:
        frame = _innermost(self.trace)
        return (frame["code"] or "").strip() if frame else ""

    def __str__(self) -> str:
        frame = _innermost(self.trace)
        if frame is None:
            return self.trace.strip()
        return f"{frame['file']}:{frame['line']}   {self.code}".rstrip()


@functools.lru_cache(maxsize=_TRACES)
def _innermost(trace: str) -> re.Match[str] | None:
    frames = list(_FRAME.finditer(trace))
    innermost = [frame for frame in frames if not _is_wrapper(frame["file"])] or frames
    return innermost[-1] if innermost else None


def source_of(node: Node | None) -> SourceLine | None:
    """The innermost line of the user's that made `node`; `None` where tracing recorded none."""
    trace = None if node is None else node.meta.get("stack_trace")
    if not isinstance(trace, str) or _innermost(trace) is None:
        return None
    return SourceLine(trace)


def nearest_source_of(*nodes: Node) -> SourceLine | None:
    """The first line among those of the nodes and of their neighbours; nodes that a partitioner made have none."""
    near = (around for node in nodes for around in (node, *node.all_input_nodes, *node.users))
    return next((line for line in map(source_of, near) if line is not None), None)


def start_of(graph: Graph) -> SourceLine | None:
    """The first line of the user's that a graph was traced from, or else the first of a wrapper."""
    traced = [node for node in graph.nodes if source_of(node) is not None]
    return source_of(next((node for node in traced if has_line(node)), traced[0] if traced else None))


def place_of(node: Node) -> str:
    """The user's line of a node and the node's name, or only its name where tracing recorded no line."""
    line = source_of(node)
    return f"node {node.name}" if line is None else f"{line} (node {node.name})"


def has_line(node: Node) -> bool:
    """Whether the node's trace names a line of the user's, not only of the wrappers it was called through."""
    frame = _innermost(node.meta.get("stack_trace") or "")
    return frame is not None and not _is_wrapper(frame["file"])


def calling_line() -> str:
    """The innermost line of the running program that is neither torch's nor a wrapper's; empty without one.

    For a graph whose nodes name no line: Dynamo compiled a wrapper by itself, and the user's code is what called it.
    """
    return str(_calling() or "")


def lend_lines(graph: Graph) -> None:
    """Gives nodes the line that called a wrapper, where Dynamo compiled the wrapper by itself."""
    traced = [node for node in graph.nodes if source_of(node) is not None]
    if not traced or any(map(has_line, traced)):
        return
    line = _calling()
    if line is None:
        return
    for node in traced:
        node.meta["stack_trace"] = f"{line.trace}\n{node.meta['stack_trace']}"


def _calling() -> SourceLine | None:
    for frame in reversed(traceback.extract_stack()):
        file = frame.filename.replace("\\", "/")
        if not any(part in file for part in _MACHINERY) and not file.startswith("<"):
            return SourceLine.at(frame.filename, frame.lineno or 0, frame.line or "")
    return None


def warn_at(line: SourceLine | None, warning: Warning, package: str) -> None:
    """Warns at the user's line, once for each line as Python does."""
    file, number = ("<graph>", 0) if line is None else (line.file, line.line)
    warnings.warn_explicit(warning, None, file, number, module=package)


def _is_wrapper(file: str) -> bool:
    plain = file.replace("\\", "/")
    return plain.endswith(_WRAPPERS) or _TRANSFORMS in plain
