"""Scopes of a graph that is cut: each compiled piece has the scopes of its operators, whole.

    with limit_core_num(4, 8):        piece 0: enter, relu, exit
        y = torch.relu(x)             nonzero, eagerly
        i = y.nonzero()          ->   piece 1: enter, mul, exit
        z = y * 2

Before the cut each node notes the scopes that it is in, and the nodes that begin and end scopes are taken out.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import fx

from air_streams import NAMESPACE

_ops: Final = getattr(torch.ops, NAMESPACE)
_ENDS: Final = {
    _ops.stream_enter.default: _ops.stream_exit.default,
    _ops.core_limit_enter.default: _ops.core_limit_exit.default,
    _ops.attributes_enter.default: _ops.attributes_exit.default,
}
_EXITS: Final = frozenset(_ENDS.values())
_NOTED: Final = "air_geir_scopes"


def note_scopes(gm: fx.GraphModule) -> frozenset[str]:
    """Takes the scopes out of a graph, and notes them at its nodes; the names of what was taken out.

    A graph whose scopes do not end as they began is left as it is.
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
            within[node] = tuple((scope.target, scope.args, scope.kwargs) for scope in open_now)
    if open_now:
        return frozenset()
    for node, scopes in within.items():
        node.meta[_NOTED] = scopes
    for node in reversed(taken):
        gm.graph.erase_node(node)
    return frozenset(node.name for node in taken)


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
            for target, _, _ in reversed(current[common:]):
                part.graph.call_function(_ENDS[target])
            for target, args, kwargs in wanted[common:]:
                part.graph.call_function(target, args, kwargs)
        current = wanted
