"""A case: a function as source text, and a script of calls and writes around it, as source text too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Statement:
    """A line of the function, or a block of them, and the name it is counted under."""

    text: str
    tag: str


@dataclass(frozen=True)
class Given:
    """What the function returns: an expression, or a tuple, list or dict of such."""

    text: str = "None"
    kind: str = "value"
    parts: tuple[Given, ...] = ()

    def __str__(self) -> str:
        if self.kind == "value":
            return self.text
        inner = [str(part) for part in self.parts]
        if self.kind == "tuple":
            return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
        if self.kind == "list":
            return "[" + ", ".join(inner) + "]"
        return "{" + ", ".join(f'"k{at}": {text}' for at, text in enumerate(inner)) + "}"

    def smaller(self) -> Iterator[Given]:
        """The same with one part less, or one part in its place."""
        if self.kind == "value":
            if self.text != "None":
                yield Given()
            return
        for at, part in enumerate(self.parts):
            for less in part.smaller():
                yield replace(self, parts=(*self.parts[:at], less, *self.parts[at + 1 :]))
        if self.parts and str(self.parts[-1]) == "None":
            yield replace(self, parts=self.parts[:-1])
        if self.parts:
            yield self.parts[0]


@dataclass(frozen=True)
class Case:
    """One random program and how it is called."""

    parameters: tuple[str, ...]
    body: tuple[Statement, ...]
    returns: Given
    script: tuple[str, ...]
    dynamic: bool | None = False
    options: Mapping[str, Any] = field(default_factory=dict)
    is_exact: bool = True

    def source(self) -> str:
        """The function alone."""
        lines = [line for statement in self.body for line in statement.text.splitlines()]
        body = [f"    {line}" for line in (*lines, f"return {self.returns}")]
        return "\n".join((f"def f({', '.join(self.parameters)}):", *body, ""))

    def __str__(self) -> str:
        options = f", options={dict(self.options)!r}" if self.options else ""
        compiled = f"f = torch.compile(f, backend=..., dynamic={self.dynamic}{options})"
        return "\n".join((self.source(), compiled, *self.script))

    def tags(self) -> tuple[str, ...]:
        return tuple(sorted({statement.tag for statement in self.body}))
