"""Ascend IR files: `.air` is the serialised model, without header or checksum."""

from __future__ import annotations

from air_geir.file._decode import parse_model
from air_geir.file._encode import encode_model
from air_geir.file._outside import with_whole_paths
from air_geir.file._store import INLINE_LIMIT, from_bytes, read, to_bytes, write

__all__ = [
    "INLINE_LIMIT",
    "encode_model",
    "from_bytes",
    "parse_model",
    "read",
    "to_bytes",
    "with_whole_paths",
    "write",
]
