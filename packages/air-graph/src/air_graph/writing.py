"""Writes straight Python code: expressions of the values of a graph, lines, and the function that they are.

writer = Writer()
writer.names[x] = "a0"
writer.line(f"return {writer.call(writer.bind(torch.add, 'f'), (x, 1), {})}")
function, filename, source = writer.function("graph", ["a0"])
"""

from __future__ import annotations

import itertools
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch.fx import Node

__all__ = ["Writer"]

_COUNTER: Final = itertools.count()
_LITERALS: Final = (bool, int, float, str, type(None))


class Writer:
    """Collects the lines of one function and the objects that its names stand for."""

    def __init__(self) -> None:
        self.names: dict[Node, str] = {}
        self.globals: dict[str, Any] = {"inf": float("inf"), "nan": float("nan")}
        self.lines: list[str] = []
        self.nodes: dict[int, Node] = {}
        self._bound: dict[int, str] = {}

    def bind(self, value: object, prefix: str) -> str:
        """The name of an object among the globals of the function."""
        name = self._bound.get(id(value))
        if name is None:
            name = f"{prefix}{len(self.globals)}"
            self.globals[name] = value
            self._bound[id(value)] = name
        return name

    def text(self, value: object) -> str:
        """A value as an expression: of nodes their names."""
        if isinstance(value, Node):
            return self.names[value]
        if type(value) in _LITERALS:
            return repr(value)
        if isinstance(value, slice):
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
            inner = ", ".join(self.text(item) for item in value)
            if isinstance(value, list):
                return f"[{inner}]"
            return f"({inner},)" if value else "()"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {self.text(item)}" for key, item in value.items()) + "}"
        return self.bind(value, "c")

    def call(self, function: str, args: Sequence[object], kwargs: Mapping[str, object]) -> str:
        """A call as an expression."""
        parts = [self.text(arg) for arg in args]
        for key, value in kwargs.items():
            plain = key.isidentifier() and not keyword.iskeyword(key)
            parts.append(f"{key}={self.text(value)}" if plain else f"**{{{key!r}: {self.text(value)}}}")
        return f"{function}({', '.join(parts)})"

    def line(self, text: str, node: Node | None = None) -> None:
        """Adds a line; an error in it is one of this node."""
        self.lines.append("    " + text)
        if node is not None:
            self.nodes[len(self.lines) + 1] = node

    def function(self, name: str, parameters: Sequence[str] = ()) -> tuple[Callable[..., Any], str, str]:
        """The function of these lines, the name of the file that its errors are in, and its source."""
        header = f"def {name}({', '.join(parameters)}):"
        source = "\n".join([header, *(self.lines or ["    pass"])]) + "\n"
        filename = f"<air {name} {next(_COUNTER)}>"
        scope = dict(self.globals)
        exec(compile(source, filename, "exec"), scope)
        # left there, it would hold itself, and all that it names, for the garbage collector to find
        function: Callable[..., Any] = scope.pop(name)
        return function, filename, source
