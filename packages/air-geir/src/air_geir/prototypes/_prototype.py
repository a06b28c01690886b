"""What an operator type takes and gives: ports, attributes, subgraphs."""

from __future__ import annotations

import ast
import enum
import re
from dataclasses import dataclass, field
from functools import cached_property

from air_geir.errors import PrototypeError
from air_geir.types import AttrKind, DataType


class PortKind(enum.Enum):
    """How many values a port takes; the value is its mark in a prototype."""

    REQUIRED = ""
    OPTIONAL = "?"
    DYNAMIC = "*"


@dataclass(frozen=True, slots=True)
class PortSpec:
    """One input or output of a prototype."""

    name: str
    kind: PortKind = PortKind.REQUIRED

    def __str__(self) -> str:
        return self.name + self.kind.value


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()
"""Stands for the default of an attribute that has none."""


@dataclass(frozen=True, slots=True)
class AttrSpec:
    """One attribute of a prototype."""

    name: str
    kind: AttrKind
    default: object = REQUIRED

    @property
    def is_required(self) -> bool:
        """True when a node must give the attribute."""
        return self.default is REQUIRED

    def __str__(self) -> str:
        if self.is_required:
            return f"{self.name}: {self.kind.value}"
        value = self.default
        text = (
            value.name
            if isinstance(value, DataType)
            else repr(list(value) if isinstance(value, tuple) else value)
        )
        return f"{self.name}: {self.kind.value} = {text}"


@dataclass(frozen=True)
class Prototype:
    """The signature of an operator type."""

    op_type: str
    inputs: tuple[PortSpec, ...] = ()
    outputs: tuple[PortSpec, ...] = ()
    attrs: tuple[AttrSpec, ...] = ()
    subgraphs: tuple[str, ...] = field(default=())

    @cached_property
    def attr(self) -> dict[str, AttrSpec]:
        """Attributes by name."""
        return {a.name: a for a in self.attrs}

    @cached_property
    def input_index(self) -> dict[str, int]:
        """Position of each input by name."""
        return {p.name: i for i, p in enumerate(self.inputs)}

    @cached_property
    def refs(self) -> dict[str, str]:
        """Outputs written in place: output name -> the input of the same name."""
        return {p.name: p.name for p in self.outputs if p.name in self.input_index}

    @cached_property
    def plain_outputs(self) -> tuple[str, ...] | None:
        """Names of the outputs when none is dynamic, else None."""
        dynamic = any(p.kind is PortKind.DYNAMIC for p in self.outputs)
        return None if dynamic else tuple(p.name for p in self.outputs)

    @cached_property
    def plain_inputs(self) -> tuple[str, ...] | None:
        """Names of the inputs when none is dynamic, else None."""
        dynamic = any(p.kind is PortKind.DYNAMIC for p in self.inputs)
        return None if dynamic else tuple(p.name for p in self.inputs)

    def __str__(self) -> str:
        outputs = ", ".join(map(str, self.outputs))
        text = f"{self.op_type}({', '.join(map(str, self.inputs))}) -> "
        text += outputs if len(self.outputs) == 1 else f"({outputs})"
        if self.attrs:
            text += " {" + "; ".join(map(str, self.attrs)) + "}"
        if self.subgraphs:
            text += " [" + ", ".join(self.subgraphs) + "]"
        return text


_ROW = re.compile(r"(\w+)\(([^)]*)\) -> (?:\(([^)]*)\)|([\w*?]+))(?: \{(.*)\})?(?: \[([\w, ]+)\])?")
_PORT = re.compile(r"(\w+)([?*]?)")
_ATTR = re.compile(r"(\w+): (\w+)(?: = (.*))?")


def parse(row: str) -> Prototype:
    """A prototype from one row: `Type(x, bias?, rest*) -> y {axis: int; keep: bool = False} [subgraph]`.

    `?` marks an optional port, `*` one that takes any number of values. Attributes are separated by `; `; the kind is
    a value of `AttrKind`, the default a Python literal (a `DataType` name for kind `dtype`), none when required.
    """
    match = _ROW.fullmatch(row.strip())
    if match is None:
        raise PrototypeError(
            f"{row.strip()!r} is not a prototype", advice=(parse.__doc__ or "").splitlines()[0]
        )
    op_type, inputs, many, one, attrs, subgraphs = match.groups()
    return Prototype(
        op_type,
        _ports(inputs),
        _ports(one if one is not None else many),
        tuple(_attr(text, row) for text in (attrs.split("; ") if attrs else ())),
        tuple(name.strip() for name in subgraphs.split(",")) if subgraphs else (),
    )


def _ports(text: str) -> tuple[PortSpec, ...]:
    specs = []
    for name in filter(None, (part.strip() for part in text.split(","))):
        match = _PORT.fullmatch(name)
        if match is None:
            raise PrototypeError(
                f"{name!r} is not a port of a prototype", advice="write name, name? or name*"
            )
        specs.append(PortSpec(match[1], PortKind(match[2])))
    return tuple(specs)


def _attr(text: str, row: str) -> AttrSpec:
    match = _ATTR.fullmatch(text.strip())
    if match is None:
        raise PrototypeError(
            f"{text!r} is not an attribute of a prototype",
            where=row.strip(),
            advice="write name: kind, or name: kind = default",
        )
    name, kind_name, default = match.groups()
    kind = AttrKind(kind_name)
    if default is None:
        return AttrSpec(name, kind)
    if kind is AttrKind.DTYPE:
        return AttrSpec(name, kind, DataType[default])
    return AttrSpec(name, kind, _frozen(ast.literal_eval(default)))


def _frozen(value: object) -> object:
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
