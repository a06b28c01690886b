"""Rules of edges and port names: slots, producers, prototypes, name lists, counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from air_geir.prototypes import PortKind, PortSpec, Prototype
from air_geir.types import INPUT_TYPES
from air_geir.verify._descs import has_no_type
from air_geir.verify._violation import Violation

NAMELESS_OUTPUT = frozenset({"Const", "Constant"})
"""Types whose only output may be described without a name, as TorchAir does."""
COUNTS: Mapping[str, tuple[str, str, str]] = {
    "Pack": ("input_desc", "x", "N"),
    "ParallelConcat": ("input_desc", "values", "N"),
    "ConcatV2": ("input_desc", "x", "N"),
    "Concat": ("input_desc", "x", "N"),
    "ConcatD": ("input_desc", "x", "N"),
    "ConcatV2D": ("input_desc", "x", "N"),
    "AddN": ("input_desc", "x", "N"),
    "Unpack": ("output_desc", "y", "num"),
    "Split": ("output_desc", "y", "num_split"),
    "SplitD": ("output_desc", "y", "num_split"),
    "SplitV": ("output_desc", "y", "num_split"),
    "SplitVD": ("output_desc", "y", "num_split"),
}
"""Type -> the dynamic port whose number of values an attribute repeats."""


def split_edge(edge: str) -> tuple[str, int] | None:
    """Producer and index of an edge; None when it is none."""
    name, colon, index = edge.rpartition(":")
    if not colon or not name or not re.fullmatch(r"-?\d+", index):
        return None
    return name, int(index)


def check_edges(op: Any, outputs: Mapping[str, int], where: str) -> Iterator[Violation]:
    """Every edge leads from an output that exists into a slot that is described."""
    slots = 0
    for edge in op.input:
        if not edge:
            yield from _check_unfed(op, slots, where)
            slots += 1
            continue
        parts = split_edge(edge)
        if parts is None:
            yield Violation("edges.syntax", where, f"{edge!r} is not an edge: write node:index")
            continue
        name, index = parts
        if name not in outputs:
            yield Violation("edges.producer", where, f"edge {edge!r} comes from a node that does not exist")
        elif index < -1 or index >= outputs[name]:
            yield Violation("edges.index", where, f"edge {edge!r}: {name} has {outputs[name]} outputs")
        if index == -1:
            continue
        yield from _check_fed(op, slots, edge, where)
        slots += 1
    yield from _check_slots(op, slots, where)


def _check_slots(op: Any, slots: int, where: str) -> Iterator[Violation]:
    if op.type in INPUT_TYPES:
        if slots:
            yield Violation("edges.slots", where, f"{op.type} takes no edges")
    elif slots != len(op.input_desc):
        yield Violation("edges.slots", where, f"{slots} data edges for {len(op.input_desc)} described inputs")


def _check_unfed(op: Any, slot: int, where: str) -> Iterator[Violation]:
    if slot < len(op.input_desc) and not has_no_type(op.input_desc[slot]):
        name = op.input_desc[slot].name
        yield Violation("edges.unfed", where, f"input {name!r} is not fed but is described with a data type")


def _check_fed(op: Any, slot: int, edge: str, where: str) -> Iterator[Violation]:
    if slot < len(op.input_desc) and has_no_type(op.input_desc[slot]):
        name = op.input_desc[slot].name
        yield Violation(
            "edges.unfed", where, f"input {name!r} is fed by {edge!r} but is described as not fed"
        )


def check_names(op: Any, where: str) -> Iterator[Violation]:
    """Ports have names, each once on its side, and the name lists repeat them."""
    for side in ("input", "output"):
        names = [d.name for d in getattr(op, f"{side}_desc")]
        nameless = op.type in NAMELESS_OUTPUT and side == "output" and names == [""]
        if not nameless and "" in names:
            yield Violation("ports.name", where, f"{side} {names.index('')} has no name")
        doubled = {n for n in names if names.count(n) > 1} if len(set(names)) != len(names) else set()
        if doubled:
            yield Violation("ports.unique", where, f"{side} name {min(doubled)!r} stands twice")
        yield from _check_name_list(op, side, names, where)


def _check_name_list(op: Any, side: str, names: Sequence[str], where: str) -> Iterator[Violation]:
    keys, slots = f"_{side}_name_key", f"_{side}_name_value"
    if (keys in op.attr) != (slots in op.attr):
        yield Violation("ports.list", where, f"{keys} and {slots} must stand together")
        return
    if keys not in op.attr:
        return
    if op.attr[keys].WhichOneof("value") not in (None, "list") or [
        s.decode(errors="replace") for s in op.attr[keys].list.s
    ] != list(names):
        yield Violation("ports.list", where, f"{keys} does not repeat the names of the {side}s")
    if op.attr[slots].WhichOneof("value") not in (None, "list") or list(op.attr[slots].list.i) != list(
        range(len(names))
    ):
        yield Violation("ports.list", where, f"{slots} does not count the {side}s")


def check_prototype_ports(op: Any, prototype: Prototype, where: str) -> Iterator[Violation]:
    """Ports stand in the prototype's order; required ones are there and fed; dynamic ones count from zero."""
    inputs = [d.name for d in op.input_desc]
    outputs = [d.name for d in op.output_desc]
    if not _fits(prototype.inputs, inputs):
        yield Violation("ports.prototype", where, f"inputs {inputs} do not fit the prototype: {prototype}")
    elif op.type not in INPUT_TYPES:
        optional = {p.name for p in prototype.inputs if p.kind is PortKind.OPTIONAL}
        for desc in op.input_desc:
            if has_no_type(desc) and desc.name not in optional:
                yield Violation(
                    "ports.required", where, f"input {desc.name} is required but has no data type"
                )
    if not (op.type in NAMELESS_OUTPUT and outputs == [""]) and not _fits(prototype.outputs, outputs):
        yield Violation("ports.prototype", where, f"outputs {outputs} do not fit the prototype: {prototype}")


def _fits(specs: Sequence[PortSpec], names: Sequence[str]) -> bool:
    at = 0
    for spec in specs:
        if spec.kind is PortKind.DYNAMIC:
            number = 0
            while at < len(names) and names[at] == f"{spec.name}{number}":
                at += 1
                number += 1
        elif at < len(names) and names[at] == spec.name:
            at += 1
        elif spec.kind is PortKind.REQUIRED:
            return False
    return at == len(names)


def check_counts(op: Any, where: str) -> Iterator[Violation]:
    """An attribute that repeats the number of a dynamic port's values is right."""
    known = COUNTS.get(op.type)
    if known is None:
        return
    side, port, key = known
    found = sum(1 for d in getattr(op, side) if re.fullmatch(rf"{port}\d+", d.name))
    if key in op.attr and op.attr[key].i != found:
        yield Violation("ports.count", where, f"{key} is {op.attr[key].i}, there are {found} {port}")
