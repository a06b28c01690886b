"""Errors of air-geir: what happened, where, and what to do about it."""

from __future__ import annotations


class GeirError(Exception):
    """Base of every error this package raises on purpose.

    Args:
        what: one sentence saying what happened.
        where: where it happened (a node, a file, a line of the user's source).
        advice: what the reader can do about it.
    """

    def __init__(self, what: str, *, where: str | None = None, advice: str | None = None) -> None:
        self.what = what
        self.where = where
        self.advice = advice
        super().__init__(what)

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  at      {self.where}")
        if self.advice:
            lines.append(f"  advice  {self.advice}")
        return "\n".join(lines)


class GraphError(GeirError):
    """An edit would leave the graph in a state that no engine can read."""


class PrototypeError(GeirError):
    """A node does not fit the prototype of its operator type."""


class UnknownOperatorError(PrototypeError):
    """No prototype is known for this operator type."""


class AttributeKindError(PrototypeError):
    """The value of an attribute is not of the kind the prototype asks for."""


class ExpressionError(GeirError):
    """A symbolic size cannot be written as an expression, or cannot be evaluated."""


class DTypeError(GeirError):
    """A data type has no counterpart on the other side."""


class FileFormatError(GeirError):
    """The bytes are not an Ascend IR model, or break a rule of the loader."""


class VerificationError(GeirError):
    """A graph or file breaks rules of the loader; every one is listed."""


class EngineError(GeirError):
    """An engine cannot compile or run a graph."""


class EngineUnavailableError(EngineError):
    """The engine cannot be used on this machine."""


class OptionError(GeirError):
    """An option cannot be handed to the engine."""


class ExportError(GeirError):
    """A model cannot be written to disk."""


class GearError(GeirError):
    """Dynamic gears were declared in a way that no engine accepts."""
