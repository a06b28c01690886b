"""Gets a graph from `file.py:function`.

The function takes nothing and returns what is to be looked at: a `GraphModule` (with example values, or as a
pair with its inputs), or a pair of a function or module and its inputs, which is compiled to its graphs.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

from air_fxpasses.errors import BadArgument
from air_fxpasses.testing import backend_of


@dataclass(frozen=True)
class Work:
    """Graphs to run the passes on, with their inputs where they are known."""

    graphs: tuple[GraphModule, ...]
    inputs: tuple[Any, ...] | None


def build(target: str) -> Work:
    """What `file.py:function` gives."""
    path, _, name = target.rpartition(":")
    if not path or not name:
        raise BadArgument(f"'{target}' names no function", advice="write file.py:function")
    if not Path(path).is_file():
        raise BadArgument(
            f"there is no file {path}", advice="give the path of a Python file, as file.py:function"
        )
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise BadArgument(f"{path} is not a Python file", advice="give a file whose name ends with .py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise BadArgument(
            f"{path} has no function {name}", advice="name a function at the top level of the file"
        )
    return _work(function(), target)


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
