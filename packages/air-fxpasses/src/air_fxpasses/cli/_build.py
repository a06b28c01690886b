"""Gets a graph from `file.py:function`, and a pass of one's own from `file.py:name`; a module may stand for the file.

The function takes nothing and returns what is to be looked at: a `GraphModule` (with example values, or as a
pair with its inputs), or a pair of a function or module and its inputs, which is compiled to its graphs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

from air_fxpasses._pass import Pass
from air_fxpasses.errors import BadArgument
from air_fxpasses.passes import CustomPass
from air_fxpasses.testing import backend_of
from air_graph.errors import NoSuchModule
from air_graph.imports import module_named


@dataclass(frozen=True)
class Work:
    """Graphs to run the passes on, with their inputs where they are known."""

    graphs: tuple[GraphModule, ...]
    inputs: tuple[Any, ...] | None


def build(target: str) -> Work:
    """What `file.py:function` gives."""
    function = _named(target)
    if not callable(function):
        raise BadArgument(
            f"{target} is a {type(function).__name__}", advice="name a function at the top level of the file"
        )
    return _work(function(), target)


def own_pass(target: str) -> Pass:
    """The pass that `file.py:name` is: a class that needs no arguments, an object, or a function of a graph module."""
    found = _named(target)
    if isinstance(found, type) and issubclass(found, Pass):
        return _called(found, target)
    if isinstance(found, Pass):
        return found
    if callable(found):
        _refuse_other_arguments(found, target)
        return CustomPass.of(found, target.rpartition(":")[2])
    raise BadArgument(
        f"{target} is a {type(found).__name__}",
        advice="name a class derived from Pass, one of its objects, or a function that edits a GraphModule",
    )


def _called(kind: type[Pass], target: str) -> Pass:
    try:
        return kind()
    except TypeError as error:
        raise BadArgument(
            f"{target} cannot be made without arguments: {error}",
            advice=f"write `my_pass = {kind.__name__}(...)` in the file, and name my_pass",
        ) from None


def _refuse_other_arguments(function: Callable[..., Any], target: str) -> None:
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise BadArgument(
            f"{target} is called with a GraphModule: {error}",
            advice="name a function of one argument, or a class derived from Pass",
        ) from None
    except ValueError:  # a builtin that does not tell
        return


def _named(target: str) -> Any:
    """What a file or module has under a name."""
    path, _, name = target.rpartition(":")
    if not path or not name:
        raise BadArgument(f"'{target}' names no function", advice="write file.py:function")
    try:
        module = module_named(path)
    except NoSuchModule as error:
        raise BadArgument(error.what, advice=error.advice) from None
    if not hasattr(module, name):
        raise BadArgument(
            f"{path} has no function {name}", advice="name what is at the top level of the file"
        )
    return getattr(module, name)


def _work(made: Any, target: str) -> Work:
    if isinstance(made, GraphModule):
        return Work((made,), None)
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], (list, tuple))):
        raise BadArgument(
            f"{target} returned {type(made).__name__}",
            advice="return a GraphModule, or a pair (function or module, inputs)",
        )
    subject, inputs = made
    if isinstance(subject, GraphModule):
        return Work((subject,), tuple(inputs))
    if not callable(subject):
        raise BadArgument(
            f"{target} returned {type(subject).__name__}, which cannot be called",
            advice="return a pair of a function or module and its inputs",
        )
    return Work(tuple(_graphs_of(subject, inputs)), None)


def _graphs_of(subject: Callable[..., Any], inputs: Sequence[Any]) -> list[GraphModule]:
    found: list[GraphModule] = []
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(subject, backend=backend_of(found.append), dynamic=False)(*inputs)
    return found
