"""Turns op-plugin's function list into rows: one aclnn function that is one ATen operator, argument by argument.

    - func: acos.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
      gen_opapi: {exec: aclnnAcos}            ->      Acos(T self, T out): out = acos(self)

The entries with an ``exec`` line are those that op-plugin passes on without code of its own; the order of arguments is
the order of the aclnn function.  What cannot be told from the entry alone is returned with the reason, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torchgen  # type: ignore[import-untyped]  # torch ships it without types
import yaml  # type: ignore[import-untyped]  # only the generator needs it
from torchgen.gen import parse_native_yaml  # type: ignore[import-untyped]  # as above
from torchgen.model import (  # type: ignore[import-untyped]  # as above
    FunctionSchema,
    NativeFunction,
    SchemaKind,
)

KINDS: Final = {
    "Tensor": "T",
    "Tensor?": "T?",
    "Scalar": "S",
    "Scalar?": "S?",
    "int": "i",
    "SymInt": "i",
    "bool": "b",
    "float": "d",
    "str": "s",
    "int[]": "I",
    "SymInt[]": "I",
    "int[]?": "I?",
    "SymInt[]?": "I?",
    "bool[]": "B",
    "Tensor[]": "L",
    "ScalarType": "D",
}
"""ATen type -> letter of the argument in a row (native/opapi/row.h has the list)."""

_NOT_PASSED: Final = ("layout", "device", "pin_memory", "generator")


@dataclass(frozen=True)
class Structural:
    """The rows by aclnn name (without the prefix), and why the other entries gave none."""

    rows: Mapping[str, str]
    skipped: Mapping[str, str]


def aten_functions() -> dict[str, NativeFunction]:
    """Every ATen function of the installed torch by name and overload."""
    base = Path(torchgen.__file__).parent / "packaged/ATen/native"
    parsed = parse_native_yaml(str(base / "native_functions.yaml"), str(base / "tags.yaml"))
    return {str(f.func.name): f for f in parsed.native_functions}


def entries_of(path: Path) -> list[dict[str, Any]]:
    """The entries of op_plugin_functions.yaml that have an ``exec`` line, those with ``out`` first."""
    document = yaml.safe_load(path.read_text())
    found = [
        entry
        for section in ("official", "custom")
        for entry in document.get(section) or ()
        if isinstance(entry.get("gen_opapi"), dict) and "exec" in entry["gen_opapi"]
    ]
    return sorted(found, key=lambda entry: not entry["func"].split("(")[0].endswith("out"))


def _kind(type_text: str) -> str | None:
    plain = re.sub(r"\[\d+\]", "[]", re.sub(r"\([a-z]!?\)", "", type_text))
    return KINDS.get(plain)


def _arguments(schema: FunctionSchema) -> dict[str, str | None]:
    return {a.name: _kind(str(a.type)) for a in schema.arguments.flat_non_out if a.name not in _NOT_PASSED}


def _functional_twin(function: NativeFunction, functions: Mapping[str, NativeFunction]) -> str | None:
    """The overload without ``out`` that takes the same arguments."""
    base, wanted = str(function.func.name.name), _arguments(function.func)
    for name, other in functions.items():
        same_name = name.split(".")[0] == base and other.func.kind() is SchemaKind.functional
        if same_name and _arguments(other.func) == wanted:
            return name
    return None


def _outputs(schema: FunctionSchema, order: Sequence[str]) -> list[str]:
    if schema.kind() is SchemaKind.out:
        return [a.name for a in schema.arguments.out]
    if schema.kind() is SchemaKind.inplace:
        return []
    count = len(schema.returns)
    if order:
        return list(order[len(order) - count :])
    return ["out"] if count == 1 else [f"out{i}" for i in range(count)]


def _row(aclnn: str, order: Sequence[str], called: str, schema: FunctionSchema) -> str:
    """The row of one function; ValueError says what the entry does not tell."""
    kinds, outputs = _arguments(schema), _outputs(schema, order)
    order = order or [*kinds, *outputs]
    if unknown := [name for name, kind in kinds.items() if kind is None]:
        raise ValueError(f"the type of {', '.join(unknown)} has no C counterpart in the table")
    if strange := [name for name in order if name not in kinds and name not in outputs]:
        raise ValueError(f"{', '.join(strange)} is an expression of op-plugin's")
    if absent := [name for name in kinds if name not in order]:
        raise ValueError(f"{', '.join(absent)} is not passed to the aclnn function")
    parameters = ", ".join(f"{kinds.get(name, 'T')} {name}" for name in order)
    result = f"{', '.join(outputs)} = " if outputs else ""
    return f"{aclnn}({parameters}): {result}{called}({', '.join(kinds)})"


def structural(entries: Iterable[Mapping[str, Any]], functions: Mapping[str, NativeFunction]) -> Structural:
    """One row per aclnn function that an entry maps onto one ATen function."""
    rows: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for entry in entries:
        first, *order = (part.strip() for part in str(entry["gen_opapi"]["exec"]).split(","))
        aclnn, name = first.removeprefix("aclnn"), entry["func"].split("(")[0]
        if aclnn in rows:
            continue
        function = functions.get(name)
        if function is None:
            skipped.setdefault(aclnn, f"{name} is not an ATen function")
            continue
        called = name
        if function.func.kind() is SchemaKind.out:
            called = _functional_twin(function, functions) or ""
        try:
            if not called:
                raise ValueError("there is no overload without out")
            rows[aclnn] = _row(aclnn, order, called, function.func)
        except ValueError as reason:
            skipped.setdefault(aclnn, str(reason))
    return Structural(rows, {name: why for name, why in skipped.items() if name not in rows})
