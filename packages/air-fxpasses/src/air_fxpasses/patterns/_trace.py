"""Traces the functions of a pattern into ATen graphs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from air_fxpasses.patterns._row import FusionPattern


def trace_search(pattern: FusionPattern) -> GraphModule:
    """The search function on the pattern's example inputs."""
    return trace(pattern, pattern.search, pattern.example_inputs(), pattern.scalars)


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
        gm = pattern.trace(call, fakes) if pattern.trace is not None else make_fx(call)(*fakes)
    gm.graph.eliminate_dead_code()
    return gm


def _by_name(function: Callable[..., Any], order: Sequence[str]) -> list[str]:
    """The parameters that a function takes by their names alone."""
    parameters = inspect.signature(function).parameters
    kinds = {parameter.kind for parameter in parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        return [name for name in order if name not in parameters]
    return [name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY]
