"""Rules of attributes: a value, a list that says what it holds, the kind the prototype asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from air_geir.prototypes import AttrSpec, Prototype
from air_geir.types import LIST_KINDS, AttrKind, DataType, Format
from air_geir.verify._violation import Violation

BOOKKEEPING = frozenset({"_input_name_key", "_input_name_value", "_output_name_key", "_output_name_value"})
"""Lists the loader reads by itself, whether or not they say what they hold."""
FOREIGN = frozenset({"input_layout_info", "output_layout_info", "_input_placements", "_output_dtypes"})
"""Lists TorchAir writes for itself without saying what they hold: no engine reads them."""
PLAIN_NAMES = frozenset(
    {
        "input_layout_info",
        "output_layout_info",
        "nn_module_stack",
        "torchair_enable_data_dump",
        "update_node_from_fx_input_idx",
        "index",
    }
)
"""Attributes without a leading underscore that may stand on any node."""

_LIST_FIELDS = {
    number: kind.element.element_field for number, kind in LIST_KINDS.items() if kind.element is not None
}


def check_values(entries: Mapping[str, Any], where: str) -> Iterator[Violation]:
    """Every attribute has a value, and every list says, correctly, what it holds."""
    for key in sorted(entries):
        message = entries[key]
        at = f"{where}, attribute {key}"
        field = message.WhichOneof("value")
        if not key:
            yield Violation("attrs.key", where, "an attribute has no name")
        if field is None:
            yield Violation("attrs.value", at, "has no value: the loader drops it silently")
        elif field == "list" and key not in BOOKKEEPING and key not in FOREIGN:
            yield from _check_list(message.list, at)
        elif field == "dt" and not _is_dtype(message.dt):
            yield Violation("attrs.dtype", at, f"{message.dt} is not a data type in the engine's numbering")


def _check_list(message: Any, at: str) -> Iterator[Violation]:
    field = _LIST_FIELDS.get(message.val_type)
    if field is None:
        yield Violation(
            "attrs.val_type",
            at,
            f"the list says val_type {message.val_type}: the loader drops it silently",
        )
        return
    others = [f for f in _LIST_FIELDS.values() if f != field and len(getattr(message, f))]
    if others:
        yield Violation("attrs.val_type", at, f"says it holds {field} but has {', '.join(others)}")
    if field == "dt" and not all(map(_is_dtype, message.dt)):
        yield Violation(
            "attrs.dtype", at, f"{list(message.dt)} are not all data types in the engine's numbering"
        )


def _is_dtype(number: int) -> bool:
    return 0 <= number <= max(member.api for member in DataType)


def check_prototype(op: Any, prototype: Prototype, where: str) -> Iterator[Violation]:
    """Required attributes are there, known ones are of their kind, and names outside the prototype are marked."""
    for spec in prototype.attrs:
        if spec.name in op.attr:
            yield from _check_kind(op.attr[spec.name], spec, f"{where}, attribute {spec.name}")
        elif spec.is_required:
            yield Violation("attrs.required", where, f"needs attribute {spec.name}; prototype: {prototype}")
    for key in sorted(op.attr):
        if not key.startswith("_") and key not in prototype.attr and key not in PLAIN_NAMES:
            yield Violation("attrs.unknown", where, f"has no attribute {key!r}; prototype: {prototype}")


def _check_kind(message: Any, spec: AttrSpec, at: str) -> Iterator[Violation]:
    found = message.WhichOneof("value")
    if found is None:
        return
    if found != spec.kind.field and not (spec.kind is AttrKind.DTYPE and found == "i"):
        yield Violation("attrs.kind", at, f"is of kind {found}, the prototype asks for {spec.kind.value}")
    elif found == "list" and message.list.val_type and LIST_KINDS.get(message.list.val_type) is not spec.kind:
        held = _LIST_FIELDS.get(message.list.val_type, "?")
        yield Violation("attrs.kind", at, f"is a list of {held}, the prototype asks for {spec.kind.value}")


def check_format(entries: Mapping[str, Any], where: str) -> Iterator[Violation]:
    """Formats on a descriptor are formats."""
    known = {int(f) for f in Format}
    for key in ("format_for_int", "origin_format_for_int"):
        if key in entries and (entries[key].WhichOneof("value") != "i" or entries[key].i & 0xFF not in known):
            yield Violation("descs.format", where, f"{key} is not a format number")
