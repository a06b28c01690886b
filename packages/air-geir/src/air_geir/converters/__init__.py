"""Converters: one function per torch operator, one file per family.

`@converts(overload, samples=...)` registers one; its parameters and the first line of its docstring are the schema.
"""

from __future__ import annotations

from air_geir.converters._registry import (
    Converter,
    add,
    all_converters,
    check,
    converts,
    find,
    name_of,
    resolve,
    schema_line,
    unregister,
)
from air_geir.converters._sample import Sample, SampleTensor
from air_geir.errors import ConverterError

find_converter = find

__all__ = [
    "Converter",
    "ConverterError",
    "Sample",
    "SampleTensor",
    "add",
    "all_converters",
    "check",
    "converts",
    "find",
    "find_converter",
    "name_of",
    "resolve",
    "schema_line",
    "unregister",
]
