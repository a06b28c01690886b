"""Faults in a converter of the user's, and the list of what cannot be lowered: each with what to do about it."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any

from air_config.published import document
from air_geir.converters import Converter, find_converter
from air_geir.converters._registry import where_is
from air_geir.errors import CannotConvert, ConverterFailed, UnsupportedGraphError
from air_graph.pieces import LeftOut


def raised_in(converter: Converter, fault: Exception, call: str | None) -> ConverterFailed:
    """What a converter raised, at the last of its own lines."""
    lines = traceback.extract_tb(fault.__traceback__)
    own = where_is(converter.function).rpartition(":")[0]
    at = [line for line in lines if line.filename == own] or lines
    return ConverterFailed(
        converter.target,
        f"raised {type(fault).__name__}: {fault}",
        call=call,
        where=f"{at[-1].filename}:{at[-1].lineno}   {at[-1].line or ''}".rstrip(),
        advice="repair it there",
    )


def gave(converter: Converter, result: Any, wanted: str, call: str | None) -> ConverterFailed:
    """A converter that gave something other than the results of its operator."""
    return ConverterFailed(
        converter.target,
        f"gave {result!r}, and not {wanted}",
        call=call,
        where=where_is(converter.function),
        advice="return what ctx.emit gives" + (" (is there a return?)" if result is None else ""),
    )


def of_another_type(converter: Converter, given: Any, stated: Any) -> CannotConvert:
    """A result whose type is not the one that torch states: AIR has no rule for it, or the user's has a fault."""
    if converter.is_own:
        return CannotConvert(
            f"the converter of {converter.target} has no rule for these types: it gives {given}, torch {stated}",
            advice="bring the operands to one type before the call",
        )
    return CannotConvert(
        f"its converter ({where_is(converter.function)}) gives {given}, and torch states {stated}",
        advice="cast what the converter returns: ctx.cast(result, ctx.out_dtype)",
    )


def cannot_lower(graph: str, found: Sequence[LeftOut], *, beside_torch: bool = True) -> UnsupportedGraphError:
    """The list of what has no translation.

    Args:
        graph: its name.
        found: what was left out, and why.
        beside_torch: whether torch can run what is left out; it cannot beside a graph that is exported.
    """
    ways = ["change these calls or their converters as the reasons say"]
    if any(find_converter(one.target) is None for one in found):
        ways = [f"register a converter ({document('writing-a-converter')})", "give a decomposition"]
    if beside_torch:
        ways.append("let torch run these parts with config.air.unsupported = 'split', the default")
    return UnsupportedGraphError(graph, found, advice=_one_of(ways))


def _one_of(ways: Sequence[str]) -> str:
    *first, last = ways
    return f"{', '.join(first)}, or {last}" if first else last
