"""The table of fusion patterns, and the call that adds a pattern of your own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule

from air_fxpasses.errors import BadArgument, BadRegistration
from air_fxpasses.patterns._matcher import Traced
from air_fxpasses.patterns._row import TABLE, ExtraCheck, FusionPattern, TraceFunction
from air_fxpasses.patterns._trace import trace, trace_search

_rows: dict[str, FusionPattern] = {}
_traced: WeakKeyDictionary[FusionPattern, Traced] = WeakKeyDictionary()


def register_pattern(pattern: FusionPattern, *, later: bool = False) -> None:
    """Adds a row. It is checked now if its operators are loaded, and otherwise, or with `later`, when it is used.

    A check traces both functions, which takes some hundredths of a second.
    """
    if pattern.name in _rows:
        raise BadRegistration(TABLE, pattern.name, "a pattern of that name is registered already")
    unknown = [name for name in pattern.scalars if name not in inspect.signature(pattern.search).parameters]
    if unknown:
        raise BadRegistration(
            TABLE, pattern.name, f"the search function has no parameter {', '.join(unknown)}"
        )
    if not later and not pattern.missing():
        _traced[pattern] = _checked(pattern)
    _rows[pattern.name] = pattern


def unregister_pattern(name: str) -> None:
    """Takes a row out again."""
    _traced.pop(_rows.pop(name), None)


def registered_patterns() -> tuple[FusionPattern, ...]:
    """Every row in the order of registration, inactive ones included."""
    return tuple(_rows.values())


def traced_pattern(pattern: FusionPattern) -> Traced:
    """The graph of a pattern whose operators are loaded."""
    if pattern not in _traced:
        _traced[pattern] = _checked(pattern)
    return _traced[pattern]


def register_replacement(
    search_fn: Callable[..., Any],
    replace_fn: Callable[..., Any],
    example_inputs: Sequence[Any],
    trace_fn: TraceFunction | None = None,
    extra_check: ExtraCheck | None = None,
    search_fn_pattern: GraphModule | None = None,
    scalar_workaround: Mapping[str, Any] | None = None,
    skip_duplicates: bool = False,
) -> FusionPattern:
    """Adds a fusion pattern: where a graph computes `search_fn`, it computes `replace_fn` from now on.

    `example_inputs` are tensors to trace `search_fn` with; `scalar_workaround` gives its numeric parameters
    a value to trace with, each different from every other number in the function. `extra_check(match)` may
    return `False`, or better a reason, to leave a place alone. `trace_fn(function, inputs)` replaces the
    tracing, `search_fn_pattern` the traced search function. The same search twice is refused unless
    `skip_duplicates`.
    """
    inputs = tuple(example_inputs)
    for function in (search_fn, replace_fn):
        if not callable(function):
            raise BadArgument(
                f"register_replacement needs two functions, not {function!r}",
                advice="pass the function to look for and the function to put in its place, of the same tensors",
            )
    row = FusionPattern(
        name=f"{getattr(search_fn, '__module__', '')}.{getattr(search_fn, '__qualname__', 'pattern')}#{len(_rows)}",
        search=search_fn,
        replace=replace_fn,
        example_inputs=lambda: inputs,
        scalars=dict(scalar_workaround or {}),
        extra_check=extra_check,
        trace=trace_fn,
    )
    traced = _checked(row, search_fn_pattern)
    twin = _duplicate_of(traced)
    if twin is not None:
        if skip_duplicates:
            return twin
        raise BadRegistration(
            TABLE, row.name, f"'{twin.name}' searches for the same; pass skip_duplicates=True"
        )
    _rows[row.name] = row
    _traced[row] = traced
    return row


def _duplicate_of(traced: Traced) -> FusionPattern | None:
    text = traced.gm.code
    return next((r for r in _rows.values() if not r.missing() and traced_pattern(r).gm.code == text), None)


def _checked(pattern: FusionPattern, given: GraphModule | None = None) -> Traced:
    """Traces both functions and refuses a pair that cannot stand for each other."""
    if given is not None and not isinstance(given, GraphModule):
        raise BadRegistration(TABLE, pattern.name, "search_fn_pattern has to be a traced GraphModule")
    inputs = pattern.example_inputs()
    if len(inputs) != len(pattern.parameters):
        wrong = f"{len(inputs)} example inputs for the parameters {', '.join(pattern.parameters)}"
        raise BadRegistration(TABLE, pattern.name, wrong)
    traced = Traced(given if given is not None else trace_search(pattern))
    other = Traced(trace(pattern, pattern.replace, inputs, pattern.scalars))
    problem = _search_problem(traced) or _writes("replace", other) or _difference(traced, other)
    if problem is not None:
        raise BadRegistration(TABLE, pattern.name, problem)
    return traced


def _search_problem(traced: Traced) -> str | None:
    if not traced.calls:
        return "the search function calls no operator"
    return _writes("search", traced)


def _writes(which: str, traced: Traced) -> str | None:
    """What a graph writes that a `trace_fn` has traced: it goes into a functional graph."""
    for node in traced.calls:
        if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
            return f"the {which} function writes ({node.target}); patterns are for functional graphs"
    return None


def _difference(a: Traced, b: Traced) -> str | None:
    if len(a.outputs) != len(b.outputs):
        return f"search gives {len(a.outputs)} results, replace gives {len(b.outputs)}"
    for index, (mine, theirs) in enumerate(zip(a.outputs, b.outputs, strict=True)):
        x, y = mine.meta["val"], theirs.meta["val"]
        if isinstance(x, torch.Tensor) and (x.dtype != y.dtype or x.size() != y.size()):
            return (
                f"result {index} is {x.dtype}{list(x.size())} in search, {y.dtype}{list(y.size())} in replace"
            )
    return None
