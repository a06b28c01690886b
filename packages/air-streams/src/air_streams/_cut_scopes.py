"""Scopes of a graph that is cut: each compiled piece has the scopes of its operators, whole.

    with limit_core_num(4, 8):        piece 0: enter, relu, exit
        y = torch.relu(x)             nonzero, eagerly
        i = y.nonzero()          ->   piece 1: enter, mul, exit
        z = y * 2

Before the cut each node notes the scopes that it is in, and the nodes that begin and end scopes are taken out.
"""

from __future__ import annotations

from typing import Any, Final

from torch import fx

from air_streams import _library

_ENDS: Final[dict[Any, Any]] = {
    _library.STREAM_ENTER: _library.STREAM_EXIT,
    _library.CORE_LIMIT_ENTER: _library.CORE_LIMIT_EXIT,
    _library.ATTRIBUTES_ENTER: _library.ATTRIBUTES_EXIT,
}
_EXITS: Final = frozenset(_ENDS.values())
_NOTED: Final = "air_streams_scopes"


def note_scopes(gm: fx.GraphModule, *, streams: bool = True) -> frozenset[str]:
    """Takes the scopes out of a graph, and notes them at its nodes; the names of what was taken out.

    Without `streams`, what speaks of one stream is not noted: the pieces have none. A graph whose scopes do not end as
    they began is left as it is.
    """
    open_now: list[fx.Node] = []
    taken: list[fx.Node] = []
    within: dict[fx.Node, tuple[Any, ...]] = {}
    for node in gm.graph.nodes:
        if node.target in _ENDS:
            open_now.append(node)
            taken.append(node)
        elif node.target in _EXITS:
            if not open_now or _ENDS[open_now.pop().target] is not node.target:
                return frozenset()
            taken.append(node)
        else:
            within[node] = tuple(
                (scope.target, scope.args, scope.kwargs, scope.meta.get("stack_trace"))
                for scope in open_now
                if streams or not _is_of_one_stream(scope)
            )
    if open_now:
        return frozenset()
    for node, scopes in within.items():
        node.meta[_NOTED] = scopes
    for node in reversed(taken):
        gm.graph.erase_node(node)
    return frozenset(node.name for node in taken)


def _is_of_one_stream(scope: fx.Node) -> bool:
    if scope.target is _library.CORE_LIMIT_ENTER:
        return bool(scope.args[2] if len(scope.args) > 2 else scope.kwargs.get("tag"))
    return scope.target is _library.STREAM_ENTER


def restore_scopes(part: fx.GraphModule) -> None:
    """Begins and ends the noted scopes round the nodes of a piece."""
    current: tuple[Any, ...] = ()
    for node in list(part.graph.nodes):
        if node.op in ("placeholder", "get_attr"):
            continue
        wanted: tuple[Any, ...] = () if node.op == "output" else node.meta.get(_NOTED, ())
        same = next((at for at, (a, b) in enumerate(zip(current, wanted, strict=False)) if a != b), None)
        common = min(len(current), len(wanted)) if same is None else same
        with part.graph.inserting_before(node):
            for target, args, *_ in reversed(current[common:]):
                of_stream = target is _library.STREAM_ENTER
                part.graph.call_function(_ENDS[target], args[:1] if of_stream else ())
            for target, args, kwargs, line in wanted[common:]:
                part.graph.call_function(target, args, kwargs).meta["stack_trace"] = line
        current = wanted
