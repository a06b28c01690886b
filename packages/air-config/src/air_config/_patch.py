"""`patch`: options for every configuration that is resolved while a block or a function runs."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, TypeVar, cast

from air_config import errors
from air_config._flat import read_options
from air_config._presets import preset_named
from air_config._tree import Tree

__all__ = ["Patch", "active_patches", "asked", "assigned", "patch", "patches_held"]

F = TypeVar("F", bound=Callable[..., Any])
_ACTIVE: Final[ContextVar[tuple[Mapping[str, Any], ...]]] = ContextVar("air_config_patches", default=())
_RUN_LATER: Final[tuple[tuple[Callable[[Any], bool], str], ...]] = (
    (inspect.isclass, "a class"),
    (inspect.isgeneratorfunction, "a generator"),
    (inspect.isasyncgenfunction, "an asynchronous generator"),
)
"""What runs when the call that made it is over."""


def active_patches() -> tuple[Mapping[str, Any], ...]:
    """The values of the patches in this thread or task, the innermost last."""
    return _ACTIVE.get()


@contextlib.contextmanager
def patches_held(patches: tuple[Mapping[str, Any], ...]) -> Iterator[None]:
    """A block in which these patches are active, and no others but those that begin inside."""
    token = _ACTIVE.set(patches)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def assigned(config: Tree) -> dict[str, Any]:
    """What was assigned to a configuration, by path, in order of declaration."""
    return {row.path: value for row, value in config._leaves(asked=True)}


def asked(config: Tree) -> dict[str, Any]:
    """What was assigned, over the values of the preset."""
    preset = {} if config._preset is None else preset_named(config._preset).values
    return {**preset, **assigned(config)}


class Patch:
    """What `patch` returns: `with` it, or put it on a function. One patch may be active several times at once."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __enter__(self) -> None:
        _ACTIVE.set((*_ACTIVE.get(), self._values))

    def __exit__(self, *raised: object) -> None:
        """Takes away its own values alone: blocks that overlap, as those of two generators, end in any order."""
        active = _ACTIVE.get()
        own = [at for at, values in enumerate(active) if values is self._values]
        _ACTIVE.set(tuple(values for at, values in enumerate(active) if at not in own[-1:]))

    def __call__(self, function: F) -> F:
        for is_one, what in _RUN_LATER:
            if is_one(function):
                raise errors.ConfigError(
                    f"air_config.patch cannot be put on {what}: it runs after the call that makes it",
                    where=_place(function),
                    advice="write `with air_config.patch(...):` around what resolves the configuration",
                )
        return cast(
            "F", self._awaited(function) if inspect.iscoroutinefunction(function) else self._called(function)
        )

    def _called(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **named: Any) -> Any:
            with self:
                made = function(*args, **named)
            return self._around(made) if inspect.iscoroutine(made) else made

        return inside

    async def _around(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """What a wrapper of an asynchronous function, or an object that is called as one, gives: it runs later."""
        with self:
            return await coroutine

    def _awaited(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def inside(*args: Any, **named: Any) -> Any:
            with self:
                return await function(*args, **named)

        return inside


def _place(function: Any) -> str:
    name = getattr(function, "__qualname__", repr(function))
    code = getattr(function, "__code__", None)
    return name if code is None else f"{name} at {code.co_filename}:{code.co_firstlineno}"


def patch(options: Mapping[str, Any] | Tree | None = None, /, **flat: Any) -> Patch:
    """Set options for every configuration resolved in this context (thread, task); also a decorator.

    Takes what `CompilerConfig.from_options` takes. Goes before the environment and after what a
    configuration sets itself. Patches nest; the innermost wins.
    """
    if isinstance(options, Tree) and not options._frozen:
        options = asked(options)
    if not isinstance(options, (Mapping, type(None))):
        raise errors.WrongType("options", options, "a dict of option names and values, or a CompilerConfig")
    twice = sorted(set(options or {}).intersection(flat))
    if twice:
        raise errors.ConfigError(
            f"air_config.patch is given {', '.join(map(repr, twice))} twice: in its dict, and by name",
            advice="keep one of them",
        )
    return Patch(read_options({**(options or {}), **flat}))
