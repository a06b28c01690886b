"""The globals that a graph took in, compared in every call: a module constant may change while a process runs.

    SCALE = 2                      # traced as a number
    step(x)
    module.SCALE = 3               # eager code multiplies by three from now on
    step(x)                        # the graph of 2 does not hold; another one is traced

All are looked up by one compiled expression and compared by identity first. What may change while it stays the same
object (a list, a tensor that is resized) is described again.
"""

from __future__ import annotations

import enum
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import torch
from torch import Tensor, nn

from air_backend.inference._described import facts_of, is_as
from air_backend.inference._globals import ROOT
from air_backend.inference._key import PLAIN

log = logging.getLogger(__name__)

#: The same object is the same value.
_STAYS: Final = (
    *PLAIN, torch.dtype, torch.device, torch._ops.OpOverload, torch._ops.OpOverloadPacket, type, enum.Enum,
    ModuleType, BuiltinFunctionType, CodeType, nn.Module,
)  # fmt: skip
_ANY: Final = object()


@dataclass(frozen=True, slots=True)
class _Seen:
    """A value that was compared: the same object, or `_ANY`, is described alike while its state is the same."""

    value: object
    state_of: Callable[[Any], object] | None = None
    state: object = None


@dataclass(eq=False)
class GlobalConditions:
    """What global values were when a graph was traced, by the expressions that Dynamo names them by."""

    texts: Mapping[str, str]
    scope: Mapping[str, Any]
    """What the expressions are looked up in: the globals of the function, and modules of Dynamo, as `G`."""
    own: Mapping[str, Any]
    """The globals of the function alone."""

    def hold(self) -> bool:
        """Whether they are the same now."""
        if not self.texts:
            return True
        try:
            values = eval(
                self._code, self._known
            )  # expressions of Dynamo's, from a file only this user writes
        except Exception as error:  # whatever the attributes and keys in them raise
            log.debug("a global value cannot be looked up: %s", error)
            return False
        return all(
            (
                (value is seen.value or seen.value is _ANY)
                and (seen.state_of is None or seen.state_of(value) == seen.state)
            )
            or self._is_as(at, value)
            for at, (value, seen) in enumerate(zip(values, self._seen, strict=True))
        )

    def changed(self) -> str | None:
        """The first of them that is not what it was."""
        for name, text in self.texts.items():
            try:
                if not is_as(eval(name, dict(self.scope)), text):
                    return name
            except Exception as error:  # whatever the attributes and keys in it raise
                log.debug("%s cannot be looked up: %s", name, error)
                return name
        return None

    def _is_as(self, at: int, value: object) -> bool:
        """Compares by description, and notes what is described alike without another look."""
        if not is_as(value, self._wanted[at]):
            log.debug("%s is not %s any more", list(self.texts)[at], self._wanted[at])
            return False
        self._seen[at] = _seen(value)
        return True

    @cached_property
    def _wanted(self) -> list[str]:
        return list(self.texts.values())

    @cached_property
    def _seen(self) -> list[_Seen]:
        return [_Seen(object())] * len(self.texts)

    @cached_property
    def _known(self) -> dict[str, Any]:
        """`F` for the globals of the function, and each of Dynamo's modules, which do not change."""
        roots = {name for text in self.texts for name in ROOT.findall(text) if name not in self.own}
        return {**self.scope, "F": self.own, "M": {name: self.scope["G"][name] for name in roots}}

    @cached_property
    def _code(self) -> CodeType:
        def root(found: re.Match[str]) -> str:
            return f"{'F' if found[1] in self.own else 'M'}['{found[1]}']"

        expressions = "".join(f"{ROOT.sub(root, text)}, " for text in self.texts)
        return compile(f"({expressions})", "<conditions>", "eval")


def _of_an_object(value: Any) -> object:
    return tuple(getattr(value, "__dict__", ()))


#: For kinds of values: whether the description is of this object alone, and what may change of it.
_KINDS: Final[tuple[tuple[Any, bool, Callable[[Any], object] | None], ...]] = (
    (_STAYS, True, None),
    (FunctionType, True, lambda value: value.__code__),
    (Tensor, True, facts_of),
    ((list, tuple), False, lambda value: (type(value), len(value))),
    (dict, False, lambda value: (type(value), *value)),
    ((set, frozenset), False, lambda value: (type(value), frozenset(value))),
    ((MethodType, partial), False, None),
    (object, True, _of_an_object),
)


def _seen(value: object) -> _Seen:
    alone, state_of = next((alone, state_of) for kinds, alone, state_of in _KINDS if isinstance(value, kinds))
    if state_of is None:
        return _Seen(value if alone else object())
    return _Seen(value if alone else _ANY, state_of, state_of(value))
