"""Finds a traced pattern in a graph, and says where and why it was not found.

Matching starts at a call of the graph that could be the pattern's last one and follows arguments upwards;
results of the pattern that this does not reach (a second output) are found among the users of what was
matched. It happens twice: first without looking at sizes and other constants, which are those of the
pattern's example inputs; then exactly, against the pattern traced again with the values found in the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from air_graph import surely

aten = torch.ops.aten

_RESHAPES: Final = (
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten._reshape_alias.default,
)
_SAME: Final[Mapping[Any, Any]] = dict.fromkeys(_RESHAPES, aten.view.default)
_LENIENT: Final = (int, float, bool, str, torch.device, torch.dtype, torch.layout, torch.memory_format)
_PLACEMENT: Final = ("device", "pin_memory", "layout")


@dataclass
class Failure(Exception):
    """Why the graph does not continue like the pattern, and how far it did."""

    reason: str
    at: Node | None
    matched: int


@dataclass
class Traced:
    """A pattern's graph, taken apart."""

    gm: GraphModule
    inputs: tuple[Node, ...] = field(init=False)
    calls: tuple[Node, ...] = field(init=False)
    outputs: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        nodes = list(self.gm.graph.nodes)
        self.inputs = tuple(n for n in nodes if n.op == "placeholder")
        self.calls = tuple(n for n in nodes if n.op == "call_function" and not is_size(n))
        result = nodes[-1].args[0]
        self.outputs = tuple(result) if isinstance(result, (list, tuple)) else (result,)

    @property
    def anchor(self) -> Node:
        """The call a search starts from: the last one."""
        return self.calls[-1]


def is_size(node: Node) -> bool:
    """Whether a node computes a size rather than a tensor."""
    return isinstance(node.meta.get("val"), (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def kind(target: Any) -> Any:
    """What a target is compared by: the reshaping operators are one."""
    return _SAME.get(target, target)


class Matcher:
    """One attempt to lay a pattern over a graph."""

    def __init__(self, pattern: Traced, scalars: Mapping[str, Any], exact: bool) -> None:
        self.pattern = pattern
        self.bound: dict[Node, Any] = {}
        self.numbers: dict[str, Any] = {}
        self._sentinels = {value: name for name, value in scalars.items()}
        self._exact = exact

    def run(self, anchor: Node) -> None:
        """Binds every node of the pattern, or raises `Failure`."""
        self._match(self.pattern.anchor, anchor)
        for node in self.pattern.calls:
            if node not in self.bound:
                self._match_user(node)

    def matched(self) -> list[Node]:
        """The calls of the graph that are bound, in program order."""
        return sorted(g for p, g in self.bound.items() if p.op == "call_function" and g is not None)

    def _fail(self, reason: str, at: Node | None) -> Failure:
        return Failure(reason, at, sum(p.op == "call_function" for p in self.bound))

    def _match(self, mine: Node, theirs: Any) -> None:
        if mine in self.bound:
            if self.bound[mine] is not theirs:
                raise self._fail(f"'{mine.name}' of the pattern would be two different values", _node(theirs))
            return
        if mine.op == "placeholder":
            self.bound[mine] = theirs
            return
        if not isinstance(theirs, Node) or kind(theirs.target) != kind(mine.target):
            found = theirs.target if isinstance(theirs, Node) else theirs
            raise self._fail(f"expected {mine.target}, found {found}", _node(theirs))
        self.bound[mine] = theirs
        self._match_arguments(mine, theirs)

    def _match_arguments(self, mine: Node, theirs: Node) -> None:
        expected, found = arguments_by_name(mine), arguments_by_name(theirs)
        for name in {**expected, **found}:
            if name in _PLACEMENT:
                continue
            self._match_value(name, expected.get(name), found.get(name), theirs)

    def _match_value(self, name: str, mine: Any, theirs: Any, at: Node) -> None:
        if isinstance(mine, Node) and not is_size(mine):
            self._match(mine, theirs)
        elif _is_tensor_list(mine):
            if not isinstance(theirs, (list, tuple)) or len(theirs) != len(mine):
                raise self._fail(f"argument '{name}' has another number of tensors", at)
            for a, b in zip(mine, theirs, strict=True):
                self._match_value(name, a, b, at)
        elif isinstance(mine, float) and mine in self._sentinels:
            self._bind_number(name, self._sentinels[mine], theirs, at)
        elif not self._is_equal_constant(mine, theirs):
            raise self._fail(f"argument '{name}' is {theirs}, the pattern has {mine}", at)

    def _bind_number(self, name: str, parameter: str, theirs: Any, at: Node) -> None:
        if not isinstance(theirs, (int, float)):
            raise self._fail(f"argument '{name}' is {theirs}, not a number", at)
        if self.numbers.setdefault(parameter, theirs) != theirs:
            raise self._fail(f"'{parameter}' would be two different numbers", at)

    def _is_equal_constant(self, mine: Any, theirs: Any) -> bool:
        if not self._exact and (_is_lenient(mine) or _is_lenient(theirs)):
            return mine is not None and theirs is not None
        return _equal(_known(mine), _known(theirs))

    def _match_user(self, mine: Node) -> None:
        """Binds a call that the anchor does not depend on: some user of what is bound already."""
        for parent in mine.all_input_nodes:
            source = self.bound.get(parent)
            if not isinstance(source, Node) or parent.op == "placeholder":
                continue
            for user in source.users:
                if kind(user.target) == kind(mine.target) and self._try(mine, user):
                    return
        if mine.target is operator.getitem:
            self.bound[mine] = None
            return
        raise self._fail(f"no {mine.target} follows", None)

    def _try(self, mine: Node, theirs: Node) -> bool:
        saved, numbers = dict(self.bound), dict(self.numbers)
        try:
            self._match(mine, theirs)
        except Failure:
            self.bound, self.numbers = saved, numbers
            return False
        return True


def arguments_by_name(node: Node) -> dict[str, Any]:
    """The arguments of a call by name, those equal to their default left out."""
    if not isinstance(node.target, OpOverload):
        return {**{str(i): a for i, a in enumerate(node.args)}, **node.kwargs}
    found: dict[str, Any] = {}
    for index, argument in enumerate(node.target._schema.arguments):
        if index < len(node.args) and not argument.kwarg_only:
            value = node.args[index]
        elif argument.name in node.kwargs:
            value = node.kwargs[argument.name]
        else:
            continue
        if not (argument.has_default_value() and _is_default(value, argument.default_value)):
            found[argument.name] = value
    return found


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (
        not isinstance(value, Node) and type(value) is type(default) and value == default
    )


def _node(value: Any) -> Node | None:
    return value if isinstance(value, Node) else None


def _is_tensor_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(v, Node) and not is_size(v) for v in value)


def _is_lenient(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_lenient(v) for v in value)
    return isinstance(value, _LENIENT) or (isinstance(value, Node) and is_size(value))


def _known(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_known(v) for v in value]
    return value.meta["val"] if isinstance(value, Node) else value


def _equal(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, list):
        same = isinstance(theirs, list) and len(mine) == len(theirs)
        return same and all(_equal(a, b) for a, b in zip(mine, theirs, strict=True))
    if isinstance(mine, torch.Tensor) or isinstance(theirs, (torch.Tensor, list)):
        return False
    if isinstance(mine, (torch.SymInt, torch.SymFloat)) or isinstance(theirs, (torch.SymInt, torch.SymFloat)):
        return bool(surely(mine == theirs))
    return bool(mine == theirs)
