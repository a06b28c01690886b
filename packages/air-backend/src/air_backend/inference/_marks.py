"""What a program marked on tensors (`torch._dynamo.mark_dynamic`, `mark_static`, and what declares sizes).

Torch compares the marks of an argument with those of the tensor that was traced, and leaves them out when it writes
that tensor down: read again, a graph of a marked tensor would hold for no marked tensor. So they are written beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from torch import Tensor

NAMES: Final = (
    "_dynamo_dynamic_indices",
    "_dynamo_weak_dynamic_indices",
    "_dynamo_unbacked_indices",
    "_dynamo_strict_unbacked_indices",
    "_dynamo_static_indices",
)

Marks = Mapping[str, Mapping[str, list[int]]]
"""Dynamo's expression for a tensor, name of a mark -> the dims."""


def marks_of(guards: Iterable[Any]) -> Marks:
    """The marks of the tensors of which a graph has conditions."""
    tensors = {guard.orig_guard.name: guard.value for guard in guards if isinstance(guard.value, Tensor)}
    found = {
        expression: {name: sorted(getattr(tensor, name)) for name in NAMES if hasattr(tensor, name)}
        for expression, tensor in tensors.items()
    }
    return {expression: marks for expression, marks in found.items() if marks}


def put_back(graph: Any, marks: Marks) -> None:
    """Builds the conditions of a graph from a file again: with its globals, and marks as the traced tensors had."""
    artifacts = graph._artifacts
    if not marks and not graph.fn.__globals__.keys() & artifacts.runtime_env.used_globals.keys():
        return
    from torch._dynamo.package import load_guard_manager, load_guards_state

    state = load_guards_state(artifacts.guards_state)
    known = _Globals(state.output_graph.global_scope)
    known.live = graph.fn.__globals__
    state.output_graph.global_scope = known
    scope = {"L": state.output_graph.local_scope, "G": known}
    for expression, found in marks.items():
        tensor = eval(expression, scope)  # an expression of Dynamo's, from a file that only this user writes
        for name, dims in found.items():
            setattr(tensor, name, set(dims))
    artifacts.guard_manager = load_guard_manager(state, artifacts.original_code, graph.fn.__globals__)


class _Globals(dict[str, Any]):
    """The globals in a file, of which there are few, and those of the function, for sizes of global tensors."""

    live: dict[str, Any]

    def __missing__(self, name: str) -> Any:
        return self.live[name]
