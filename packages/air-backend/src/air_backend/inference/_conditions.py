"""The conditions of a graph that torch cannot write down: which function, class or member of an enumeration a value is.

Dynamo compares such values by identity, which another process does not have. Here they are compared by what they are
(`_described`), under the expressions that Dynamo names them by:

    kind                           an argument of the call
    self.activation                an attribute of the model

The values of one process are compared by identity first. For globals see `_global_conditions`.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import CodeType, ModuleType
from typing import Any, Final

from torch import Tensor, nn

from air_backend.inference._described import described, is_as
from air_backend.inference._global_conditions import GlobalConditions
from air_backend.inference._key import cells_of, hooks_on

log = logging.getLogger(__name__)

#: Whose contents may change while they stay the same object.
_CHANGING: Final = (list, dict, set)
#: What torch compares itself, and modules of Python, which only their names tell apart.
_COMPARED: Final = (Tensor, nn.Module, ModuleType)


@dataclass
class Conditions:
    """What some values were when a graph was traced, by the expressions that Dynamo names them by."""

    texts: Mapping[str, str]
    function: Any
    scope: Mapping[str, Any]
    """The globals of the function, as `G`."""
    references: Mapping[str, str] = field(default_factory=dict)
    """Those that are asked once, before the first call: see `_references`."""
    hooks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The hooks of modules by expressions, asked once as well: Dynamo has no conditions on hooks."""
    _are_settled: bool = False
    _seen: dict[int, object] = field(default_factory=dict, repr=False)

    @cached_property
    def _parts(self) -> list[tuple[CodeType, str]]:
        return [(compile(name, "<condition>", "eval"), text) for name, text in self.texts.items()]

    @cached_property
    def _signature(self) -> inspect.Signature:
        return signature_of(self.function)

    def hold(self, given: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        """Whether they are the same for a call."""
        if not self.texts and (self._are_settled or not (self.references or self.hooks)):
            return True
        named = arguments(self.function, given, kwargs, self._signature)
        if not all(self._holds(number, code, text, named) for number, (code, text) in enumerate(self._parts)):
            return False
        self._are_settled = self._are_settled or self._settled(named)
        return self._are_settled

    def _settled(self, named: dict[str, Any]) -> bool:
        asked = [(name, partial(is_as, text=text)) for name, text in self.references.items()]
        asked += [(name, partial(_has_hooks, texts)) for name, texts in self.hooks.items()]
        return all(self._once(name, named, holds) for name, holds in asked)

    def _once(self, name: str, named: dict[str, Any], holds: Callable[[Any], bool]) -> bool:
        try:
            return holds(looked_up(name, self.scope, named))
        except Exception as error:  # whatever the attributes and keys in it raise
            log.debug("%s cannot be looked up: %s", name, error)
            return False

    def _holds(self, number: int, code: CodeType, text: str, named: dict[str, Any]) -> bool:
        try:
            value = eval(
                code, dict(self.scope), named
            )  # an expression of Dynamo's, from a file that only this user writes
        except Exception as error:  # whatever the attributes and keys in it raise
            log.debug("%s cannot be looked up: %s", code.co_names, error)
            return False
        if value is self._seen.get(number, _NOTHING) and not isinstance(value, _CHANGING):
            return True
        if not is_as(value, text):
            return False
        self._seen[number] = value
        return True


def _has_hooks(texts: Sequence[str], module: Any) -> bool:
    return hooks_on(module) == texts


_NOTHING: Final = object()


@dataclass(frozen=True)
class Traced:
    """A graph and all conditions under which it may be called."""

    graph: Any
    conditions: Conditions
    globals: GlobalConditions

    def holds(self, given: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        return self._takes(given, kwargs) and self.globals.hold()

    def changed(self, given: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
        """A global that alone keeps the graph from being called with these arguments."""
        return self.globals.changed() if self._takes(given, kwargs) else None

    def _takes(self, given: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        return bool(self.graph.guard_check(*given, **kwargs)) and self.conditions.hold(given, kwargs)


def arguments(
    function: Any,
    given: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    signature: inspect.Signature | None = None,
) -> dict[str, Any]:
    """The arguments of a call, and what the function closes over, by the names that they have in the function."""
    bound = (signature or signature_of(function)).bind(*given, **kwargs)
    bound.apply_defaults()
    held = {}
    for name, cell in cells_of(function).items():
        with contextlib.suppress(ValueError):  # a cell that nothing is in
            held[name] = cell.cell_contents
    return held | bound.arguments


def signature_of(function: Any) -> inspect.Signature:
    """That of the code which Dynamo traces: not of what a decorator says that it wraps."""
    return inspect.signature(function, follow_wrapped=False)


def looked_up(name: str, scope: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    """The value of an expression of Dynamo's, from a trace or from a file that only this user writes."""
    return eval(name, dict(scope), named)


def texts_of(
    names: Iterable[str],
    contents: Collection[str],
    scope: Mapping[str, Any],
    named: Mapping[str, Any],
    *,
    compared: tuple[type, ...] = _COMPARED,
) -> dict[str, str]:
    """What the values of these expressions are, where they can be looked up; of some their contents as well.

    Values that are `compared` otherwise are left out.
    """
    found: dict[str, str] = {}
    for name in names:
        try:
            value = looked_up(name, scope, named)
        except Exception as error:  # whatever the attributes and keys in it raise
            log.debug("%s cannot be looked up: %s", name, error)
            continue
        if not isinstance(value, compared):
            found[name] = described(value, contents=name in contents)
    return found
