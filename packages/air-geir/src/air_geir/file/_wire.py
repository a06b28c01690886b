"""The protobuf wire format, as far as writing needs it.

Writing does not go through message objects: encoding straight to bytes keeps weights from being copied twice, costs a
few microseconds per node with any protobuf release, and fixes the order of fields and map entries, which makes
files byte-stable. Field numbers come from the schema.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

from air_geir.file._schema import descriptor

VARINT, LENGTH, FIXED32 = 0, 2, 5
_pack_float = struct.Struct("<f").pack


def varint(value: int) -> bytes:
    """A number in base 128; negative ones as 64-bit two's complement."""
    if 0 <= value < 128:
        return _SMALL[value]
    return _varint(value)


@lru_cache(maxsize=65536)
def _varint(value: int) -> bytes:
    rest = value & 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_SMALL = [bytes((i,)) for i in range(128)]


def tags(message: str, wire_type: int, *fields: str) -> tuple[bytes, ...]:
    """The key bytes of fields, numbers taken from the schema."""
    by_name = descriptor(message).fields_by_name
    return tuple(varint(by_name[name].number << 3 | wire_type) for name in fields)


def block(tag: bytes, body: bytes) -> bytes:
    """A length-delimited field."""
    return b"".join((tag, varint(len(body)), body))


@lru_cache(maxsize=65536)
def text(tag: bytes, value: str) -> bytes:
    """A string field."""
    return block(tag, value.encode())


def floats(tag: bytes, values: Iterable[float]) -> bytes:
    """A packed list of 32-bit floats; nothing when empty."""
    body = b"".join(map(to_float32, values))
    return block(tag, body) if body else b""


def ints(tag: bytes, values: Iterable[int]) -> bytes:
    """A packed list of integers; nothing when empty."""
    body = b"".join(map(varint, values))
    return block(tag, body) if body else b""


def to_float32(value: float) -> bytes:
    """Four bytes; values beyond the range become infinite as in C."""
    try:
        return _pack_float(value)
    except OverflowError:
        return _pack_float(float("inf") if value > 0 else float("-inf"))
