"""Rules of the nodes that carry a graph's inputs, constants and outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from air_geir.types import DataType
from air_geir.verify._violation import Violation


def check_data(op: Any, where: str) -> Iterator[Violation]:
    """A graph input has an index, a type, and is described alike on both sides."""
    if "index" not in op.attr or op.attr["index"].WhichOneof("value") != "i":
        yield Violation("data.index", where, f"{op.type} needs an integer attribute index")
    if len(op.output_desc) != 1:
        yield Violation("data.desc", where, f"{op.type} has one output, {len(op.output_desc)} are described")
        return
    out = op.output_desc[0]
    if out.dtype == 0:
        yield Violation("data.desc", where, "a graph input needs a data type")
    for desc in op.input_desc:
        if desc.dtype != out.dtype or list(desc.shape.dim) != list(out.shape.dim):
            yield Violation("data.desc", where, "input and output of a graph input are described differently")


def check_const(op: Any, where: str) -> Iterator[Violation]:
    """A constant has as many bytes as its shape needs, and its output is described like its value."""
    if "value" not in op.attr or op.attr["value"].WhichOneof("value") != "t":
        yield Violation("const.value", where, "a constant needs a tensor attribute value")
        return
    value = op.attr["value"].t
    dims = list(value.desc.shape.dim)
    if any(d < 0 for d in dims):
        yield Violation("const.value", where, f"the shape of a constant is known, not {dims}")
        return
    yield from _check_bytes(value, dims, where)
    if len(op.output_desc) != 1:
        yield Violation(
            "const.desc", where, f"a constant has one output, {len(op.output_desc)} are described"
        )
    elif op.output_desc[0].dtype != value.desc.dtype or list(op.output_desc[0].shape.dim) != dims:
        yield Violation("const.desc", where, "the output is described differently from the value")


def _check_bytes(value: Any, dims: list[int], where: str) -> Iterator[Violation]:
    if value.desc.dtype not in {m.value for m in DataType} or value.desc.dtype == 0:
        yield Violation("const.value", where, f"data type {value.desc.dtype} of the value is unknown")
        return
    dtype = DataType(value.desc.dtype)
    elements = 1
    for dim in dims:
        elements *= dim
    exact = dtype.bits >= 8
    if exact and len(value.data) != dtype.nbytes(elements):
        yield Violation(
            "const.bytes",
            where,
            f"{len(value.data)} bytes for {dims} {dtype.name}, needed {dtype.nbytes(elements)}",
        )


def check_net_output(op: Any, where: str) -> Iterator[Violation]:
    """The node that collects the outputs gives none."""
    if len(op.output_desc):
        yield Violation("output.ports", where, "NetOutput has no outputs")


def check_cast(op: Any, where: str) -> Iterator[Violation]:
    """The target type is in the engine's numbering and is the type of the output."""
    number = op.attr["dst_type"].i if "dst_type" in op.attr else -1
    if not 0 <= number <= max(member.api for member in DataType):
        yield Violation(
            "cast.dtype", where, f"dst_type {number} is not a data type in the engine's numbering"
        )
        return
    dtype = DataType.from_api(number)
    if len(op.output_desc) == 1 and op.output_desc[0].dtype not in (0, dtype.value, DataType.FLOAT.value):
        yield Violation(
            "cast.dtype", where, f"dst_type {number} means {dtype.name}, the output is described differently"
        )


SPECIAL: Mapping[str, Callable[[Any, str], Iterator[Violation]]] = {
    "Data": check_data,
    "RefData": check_data,
    "Const": check_const,
    "Constant": check_const,
    "NetOutput": check_net_output,
    "Cast": check_cast,
}
"""Operator type -> its own rules."""
