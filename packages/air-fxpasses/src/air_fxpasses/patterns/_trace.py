"""Traces the functions of a pattern into ATen graphs, without writes, as the graphs are in which patterns are found.

A function may use operators that write in place: the graph has new values in their place.  What it writes into its
arguments, its results have, and nobody else sees.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor, dispatch_functionalize
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from air_fxpasses.errors import BadRegistration
from air_fxpasses.patterns._row import TABLE, FusionPattern


def trace_search(pattern: FusionPattern) -> GraphModule:
    """The search function on the pattern's example inputs; one that writes them is refused."""
    written: list[int] = []

    def watched(*values: Any, **named: Any) -> Any:
        result = pattern.search(*values, **named)
        given = [*values, *named.values()]
        written.extend(i for i, value in enumerate(given) if _is_written(value))
        return result

    functools.update_wrapper(watched, pattern.search)
    gm = trace(pattern, watched, pattern.example_inputs(), pattern.scalars)
    if written:
        raise BadRegistration(
            TABLE,
            pattern.name,
            "the search function writes its arguments; patterns are found in functional graphs",
        )
    return gm


def _is_written(value: Any) -> bool:
    return isinstance(value, FunctionalTensor) and bool(torch._functionalize_has_data_mutation(value.elem))  # type: ignore[attr-defined]


def trace(
    pattern: FusionPattern,
    function: Callable[..., Any],
    inputs: Sequence[Any],
    scalars: Mapping[str, Any],
) -> GraphModule:
    """The graph of `function` for these inputs; dead calls are left out, numbers are constants.

    Parameters are given in the order of the search function's, whatever the function calls them.
    """
    mode = detect_fake_mode(list(inputs)) or FakeTensorMode()
    fakes = [
        mode.from_tensor(value)
        if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor)
        else value
        for value in inputs
    ]

    names = pattern.parameters
    order = tuple(inspect.signature(pattern.search).parameters)
    by_name = _by_name(function, order)

    def call(*values: Any) -> Any:
        given = {**dict(zip(names, values, strict=True)), **scalars}
        named = {name: given.pop(name) for name in by_name if name in given}
        return function(*(given[name] for name in order if name in given), **named)

    with mode, enable_python_dispatcher(), torch.no_grad():
        gm = (
            pattern.trace(call, fakes)
            if pattern.trace is not None
            else make_fx(dispatch_functionalize(call))(*fakes)
        )
    gm.graph.eliminate_dead_code()
    return gm


def _by_name(function: Callable[..., Any], order: Sequence[str]) -> list[str]:
    """The parameters that a function takes by their names alone."""
    parameters = inspect.signature(function).parameters
    kinds = {parameter.kind for parameter in parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        return [name for name in order if name not in parameters]
    return [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
