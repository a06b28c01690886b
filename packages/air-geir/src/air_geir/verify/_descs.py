"""Rules of tensor descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from air_geir.types import DataType, Format
from air_geir.verify._attrs import check_format, check_values
from air_geir.verify._violation import Violation

_DTYPES = frozenset(member.value for member in DataType)


def check_desc(desc: Any, where: str) -> Iterator[Violation]:
    """Type, shape, layout and place of one descriptor."""
    if desc.dtype not in _DTYPES:
        yield Violation(
            "descs.dtype", where, f"data type {desc.dtype} does not exist in the file's numbering"
        )
    dims = list(desc.shape.dim)
    if any(d < -1 for d in dims) and dims != [-2]:
        yield Violation(
            "descs.shape", where, f"shape {dims} has a size below -1 (and is not [-2], unknown rank)"
        )
    if desc.layout and desc.layout not in Format.__members__:
        yield Violation("descs.layout", where, f"layout {desc.layout!r} is unknown")
    if desc.device_type not in ("", "NPU", "CPU"):
        yield Violation("descs.place", where, f"device type {desc.device_type!r} is neither NPU nor CPU")
    if desc.attr:
        yield from check_values(desc.attr, where)
        yield from check_format(desc.attr, where)


def has_no_type(desc: Any) -> bool:
    """True for a descriptor the loader takes for an input that is not fed."""
    return desc.dtype == 0 or "_is_unfed_optional" in desc.attr
