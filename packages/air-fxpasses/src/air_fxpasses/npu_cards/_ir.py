"""How an operator becomes an operator of Ascend IR, as data from which air-geir makes the converter.

Ir("AddRmsNormCast")                          # inputs, attributes and results have the names of the arguments
Ir("RmsNorm", {"x": "input"})                 # its input x is our argument input
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same value in every call."""

    value: Any


@dataclass(frozen=True, slots=True)
class Respelled:
    """An argument with its values spelled as Ascend IR spells them; one that is not listed is refused."""

    argument: str
    codes: Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class OrDefault:
    """An argument, or another value where it is None."""

    argument: str
    otherwise: Any


@dataclass(frozen=True, slots=True)
class TypeOfResult:
    """The number of the type of the first result, which an argument asks for."""

    argument: str


@dataclass(frozen=True, slots=True)
class Count:
    """How many tensors a list has."""

    argument: str


@dataclass(frozen=True, slots=True)
class OrSize:
    """A number, or where it is zero the size of the first dim of another argument."""

    argument: str
    of: str


@dataclass(frozen=True, slots=True)
class OrEmpty:
    """A list of tensors, or where it is None one tensor of float32 without elements."""

    argument: str


Source = str | Fixed | Respelled | OrDefault | TypeOfResult | Count | OrSize | OrEmpty
"""Where an input or an attribute comes from: an argument by its name, or one of the above."""


@dataclass(frozen=True, slots=True)
class Ir:
    """One operator type computes it. An argument that goes nowhere is refused where it is not its default."""

    type: str
    takes: Mapping[str, Source] = field(default_factory=dict)
    """Inputs and attributes that are not the argument of their own name. None leaves an attribute at its default."""
    gives: tuple[str, ...] = ()
    """The outputs that are the results, in their order; empty: all of them as they are."""
    writes: Mapping[str, str] | None = None
    """Written argument -> the output it gets. Left out: what the schema marks, where the type writes in place.

    What the type writes in place and this does not name is copied first.
    """
    needs: Mapping[str, str] = field(default_factory=dict)
    """Output -> the argument without which the type gives nothing there; the result is zeros then."""
    only: Mapping[str, Any] = field(default_factory=dict)
    """Argument -> the one value that is computed."""
    ignored: tuple[str, ...] = ()
    """Arguments that change no number, or name a type that the result has anyway."""
    not_packed: tuple[str, ...] = ()
    """Inputs refused in int32, which would be four bits, eight to a number."""
