"""Lets a file refer to classes that are made inside a function, or inside another class.

    def build():
        class Model(nn.Module): ...        # no file can say `build.<locals>.Model`
        return Model()

While the conditions of a graph are made, and while it is written or read, each such class of the model and of the
arguments has a name in its module; not while it is traced, when the program may ask a class for its name.  Whoever
reads the file has made a model of his own by then, so the name stands for his class.  That the two classes are alike is
not taken for granted: `_classes` compares them when a file is read.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from types import MethodType
from typing import Any, Final

from torch import nn
from torch._dynamo import convert_frame
from torch._dynamo.source import is_from_global_source
from torch.utils._pytree import tree_leaves

from air_graph import forks

_MAKER: Final = "CheckFunctionManager"
_lock = forks.new_lock()
_own_names: dict[type, str] = {}


@contextlib.contextmanager
def importable(function: Callable[..., Any], arguments: Any) -> Iterator[None]:
    """While this context is entered, the local classes that a function works with have names in their modules."""
    with _lock:
        classes = list(dict.fromkeys(_local_classes((*_held_by(function), *tree_leaves(arguments)))))
        before = [(cls, cls.__name__, cls.__qualname__) for cls in classes]
        names = []
        try:
            for at, (cls, _, qualname) in enumerate(before):
                alias = f"_air_local_{at}_{''.join(c if c.isalnum() else '_' for c in qualname)}"
                setattr(sys.modules[cls.__module__], alias, cls)
                names.append((cls.__module__, alias))
                _own_names[cls] = qualname
                cls.__name__ = cls.__qualname__ = alias
            yield
        finally:
            for cls, name, qualname in before:
                cls.__name__, cls.__qualname__ = name, qualname
                _own_names.pop(cls, None)
            for module, alias in names:
                delattr(sys.modules[module], alias)


@contextlib.contextmanager
def conditions_made_in(entered: Callable[[], contextlib.AbstractContextManager[None]]) -> Iterator[None]:
    """While this context is entered, Dynamo makes conditions in another one, entered once for each graph.

    The order of keys of a global is none of torch's: it would look for the global in a file, and it is compared beside.
    """
    original = getattr(convert_frame, _MAKER)

    def made(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(original).bind(*args, **kwargs)
        output, keep = given.arguments["output_graph"], given.arguments["guard_filter_fn"]

        def kept(guards: Any) -> Any:
            found = keep(guards)
            ordered = output.guard_on_key_order
            ordered -= {source for source in ordered if is_from_global_source(source)}
            return found

        if keep is not None:
            given.arguments["guard_filter_fn"] = kept
        with entered():
            return original(*given.args, **given.kwargs)

    setattr(convert_frame, _MAKER, made)
    try:
        yield
    finally:
        setattr(convert_frame, _MAKER, original)


def own_name(cls: type) -> str:
    """The name that a class has outside of this context."""
    return _own_names.get(cls, cls.__qualname__)


def _local_classes(values: Iterable[Any]) -> Iterator[type]:
    """In an order that depends on the model and the arguments alone: the same in every process."""
    for held in values:
        for holder in held.modules() if isinstance(held, nn.Module) else (held,):
            for value in (holder, *vars(holder).values()) if hasattr(holder, "__dict__") else (holder,):
                for cls in (value if isinstance(value, type) else type(value)).__mro__:
                    if cls.__qualname__ != cls.__name__ and cls.__module__ in sys.modules:
                        yield cls


def _held_by(function: Callable[..., Any]) -> Iterator[Any]:
    """What a function brings with it: the object it is bound to, its closure, its defaults."""
    while isinstance(function, functools.partial):
        yield from (*function.args, *function.keywords.values())
        function = function.func
    if isinstance(function, MethodType):
        yield function.__self__
        function = function.__func__
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # a cell that nothing was put into yet
            yield cell.cell_contents
    yield from getattr(function, "__defaults__", None) or ()
