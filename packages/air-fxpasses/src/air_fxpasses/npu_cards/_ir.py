"""How an operator becomes an operator of Ascend IR, as data from which air-geir makes the converter.

Ir("AddRmsNormCast")                          # inputs, attributes and results have the names of the arguments
Ir("RmsNorm", {"x": "input"})                 # its input x is our argument input
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from air_fxpasses.npu_cards._types import Code


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
    """The number of the type that an argument asks for; where it is None, of the type of the first result."""

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


@dataclass(frozen=True, slots=True)
class TypeNumber:
    """The engine's number of the type that an argument names, by torch's number of it or by torch_npu's."""

    argument: str
    otherwise: Code = None
    """The type where the argument is None; without one the attribute stays at its default then."""


@dataclass(frozen=True, slots=True)
class ReadAs:
    """A tensor, or a list of them, whose bytes are of a type that torch does not have."""

    argument: str
    type: str = ""
    """The argument that names the type; where it is None, the bytes are of the tensor's own type."""
    standing_for: Mapping[torch.dtype, Code] = field(default_factory=dict)
    """What types of tensors stand for where no argument names the type."""
    times: str = ""
    """The input that is the left operand of a product: this is the right one, which may be turned after packing."""
    is_whole: bool = False
    """Values of four bits are refused: nobody says along which axis they are packed."""


@dataclass(frozen=True, slots=True)
class OrElse:
    """An argument, or another argument where it is None."""

    argument: str
    other: str


@dataclass(frozen=True, slots=True)
class InType:
    """A tensor, converted to the type that the operator type takes."""

    argument: str
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class PackedScale:
    """The scale of a product of integers, packed into 64 bits in the calls in which torch_npu packs it first."""

    argument: str
    type: str = ""
    """The argument that names the type of its bytes; where it is None, they are of the tensor's own type."""


@dataclass(frozen=True, slots=True)
class ThreeInOne:
    """Three sizes of groups, of rows, columns and depth, in one number of 16 bits each; 0 where they are None."""

    argument: str


_Number = Fixed | Respelled | OrDefault | OrElse | TypeOfResult | TypeNumber | Count | OrSize | ThreeInOne
_Tensor = OrEmpty | ReadAs | InType | PackedScale
Source = str | _Number | _Tensor
"""Where an input or an attribute comes from: an argument by its name, or one of the above."""


def arguments_of(source: Source) -> tuple[str, ...]:
    """The arguments that a source reads."""
    if isinstance(source, str):
        return (source,)
    named = (getattr(source, name, "") for name in ("argument", "type", "other"))
    return tuple(name for name in named if name)


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
    held: Mapping[str, Code | str] = field(default_factory=dict)
    """Output -> its type, or the argument that names it, where torch holds the bytes in another type."""
    typed_as: Mapping[str, str] = field(default_factory=dict)
    """Output -> the argument whose type it has, which may not be the one that torch states; the result is converted."""
    needs: Mapping[str, str] = field(default_factory=dict)
    """Output -> the argument without which the type gives nothing there ("": it never does); the result is zeros."""
    only: Mapping[str, Any] = field(default_factory=dict)
    """Argument -> the one value that is computed."""
    ignored: tuple[str, ...] = ()
    """Arguments that change no number, or name a type that the result has anyway."""
