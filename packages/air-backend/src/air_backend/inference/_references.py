"""Conditions on what is reached through a class or a function: a file knows these by name alone.

    class Model(nn.Module):
        factors = [2]                  # the condition: dict(type(self).__dict__)['factors'][0] == 2

Torch writes such a condition with the class in it, and of a class only its name. A process that reads the file puts its
own class there, and would compare that with itself. So what was found is written as text as well, and compared before
the first call; from then on torch compares with what was found then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any, Final

log = logging.getLogger(__name__)

_BY_NAME: Final = (type, FunctionType, ModuleType)


def through_names(guards: Iterable[Any], find: Callable[[str], Any]) -> Iterator[Any]:
    """The conditions whose value is reached through what a file knows by name; `find` looks an expression up."""
    known: dict[str, bool] = {}
    for guard in guards:
        source = getattr(guard.orig_guard, "originating_source", None)
        while (source := getattr(source, "base", None)) is not None:
            if source.name not in known:
                known[source.name] = _is_by_name(source.name, find)
            if known[source.name]:
                yield guard
                break


def _is_by_name(name: str, find: Callable[[str], Any]) -> bool:
    try:
        return isinstance(find(name), _BY_NAME)
    except Exception as error:  # whatever the attributes and keys in it raise
        log.debug("%s cannot be looked up: %s", name, error)
        return False
