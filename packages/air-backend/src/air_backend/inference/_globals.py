"""Lets a traced graph work with the globals of its function, and not with the copy that torch makes of them.

    def step(x):
        global COUNT
        COUNT += 1              # the graph writes COUNT: for every reader of the module, as in eager
        return x * TABLE        # and reads the TABLE of this call

What only the graph needs (what was compiled, modules under names of Dynamo) is beside them, under names that no other
graph has, while the graph lives.
"""

from __future__ import annotations

import builtins
import itertools
import re
import weakref
from collections.abc import Iterable
from types import FunctionType
from typing import Any, Final

_OF_DYNAMO: Final = ("__builtins_dict__", "___")
ROOT: Final = re.compile(r"\bG\['(\w+)'\]")
_numbers = itertools.count()


def use_globals_of(graph: Any, function: FunctionType) -> None:
    """Runs the graph with the globals of the function itself."""
    fn, scope = graph.fn, function.__globals__
    number = next(_numbers)
    renamed = {
        name: f"_air_graph_{number}_{name}" for name in fn.__code__.co_names if _is_own(name, graph, scope)
    }
    own = {new: fn.__globals__[old] for old, new in renamed.items()}
    scope.update(own)
    weakref.finalize(graph, _forget, scope, tuple(own))
    code = fn.__code__.replace(co_names=tuple(renamed.get(name, name) for name in fn.__code__.co_names))
    made = FunctionType(code, scope, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__ = fn.__kwdefaults__
    graph.fn = made


def lend_globals(graph: Any, names: Iterable[str], scope: Any) -> None:
    """Gives the conditions on sizes and numbers of a graph from a file the globals that they name.

    Torch writes none that has no other condition. What they were is compared beside, so these need not follow them.
    """
    known = graph._artifacts.guard_manager.global_scope["G"]
    for root in {root for name in names for root in ROOT.findall(name)}:
        if root not in known:
            known[root] = scope[root]


def _is_own(name: str, graph: Any, scope: dict[str, Any]) -> bool:
    """Whether a name of the code is one that Dynamo gave: Dynamo takes what it put there away again."""
    env = graph._artifacts.runtime_env
    if name not in graph.fn.__globals__ or name not in {*env.external_refs, graph._artifacts.backend_id}:
        return False
    made = name == graph._artifacts.backend_id or name in env.import_sources or name.startswith(_OF_DYNAMO)
    return made or not (name in scope or hasattr(builtins, name))


def _forget(scope: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        scope.pop(name, None)
