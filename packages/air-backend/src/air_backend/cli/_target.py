"""`MODULE:FUNC`: how the command line names what to compile.

`FUNC` takes no arguments and gives what `torch.compile` would be called with, then the example arguments:
a tuple `(model_or_function, args)` or `(model_or_function, args, kwargs)`.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Mapping
from typing import Any

from air_backend._backend import mode_named
from air_backend.cli._usage import wrong_use
from air_config import CompilerConfig
from air_graph.errors import NoSuchModule
from air_graph.imports import module_named


def add_target(parser: argparse.ArgumentParser) -> None:
    """The arguments shared by the commands that compile one function."""
    parser.add_argument(
        "target", metavar="MODULE:FUNC", help="module or file, and a function that gives (fn, args)"
    )
    parser.add_argument(
        "--mode", help="a mode of torch.compile(backend='air', mode=...), such as reduce-overhead"
    )
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the backend"
    )


def config_of(arguments: argparse.Namespace) -> CompilerConfig | None:
    """The configuration that the command line asks for; None where it asks for none."""
    if not arguments.mode and not arguments.option:
        return None
    config = CompilerConfig.preset(mode_named(arguments.mode)) if arguments.mode else CompilerConfig()
    for text in arguments.option:
        name, given, value = text.partition("=")
        if not given:
            wrong_use("", f"--option {text!r} is not NAME=VALUE, for example capture_limit=8")
        config.set_text(name, value)
    return config


def built(target: str, command: str) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """What MODULE:FUNC gives."""
    name, _, function = target.partition(":")
    if not name or not function:
        wrong_use(command, f"{target!r} is not MODULE:FUNC, for example model.py:build")
    try:
        module = module_named(name)
    except NoSuchModule as error:
        wrong_use(command, f"{error.what} ({error.advice})")
    try:
        build = getattr(module, function)
    except AttributeError:
        there = ", ".join(_candidates(module)) or "none that takes no arguments"
        wrong_use(command, f"{name} has no function {function!r}; it has {there}")
    if reason := _uncallable(build):
        wrong_use(
            command, f"{target} {reason}: write a function without arguments that gives (function, args)"
        )
    given = build()
    if not isinstance(given, tuple) or len(given) not in (2, 3) or not callable(given[0]):
        wrong_use(command, f"{target} must give (function, args) or (function, args, kwargs)")
    if not isinstance(given[1], (list, tuple)):
        wrong_use(
            command, f"{target} must give a list or tuple as args; it gives a {type(given[1]).__name__}"
        )
    if len(given) == 3 and not isinstance(given[2], Mapping):
        wrong_use(command, f"{target} must give a dict as kwargs; it gives a {type(given[2]).__name__}")
    return given[0], tuple(given[1]), dict(given[2]) if len(given) == 3 else {}


def _candidates(module: Any) -> list[str]:
    """The functions of a module that the command could call."""
    own = [each for each in vars(module).items() if getattr(each[1], "__module__", None) == module.__name__]
    return [
        name
        for name, value in own
        if inspect.isfunction(value) and not name.startswith("_") and not _uncallable(value)
    ]


def _uncallable(build: Any) -> str | None:
    """Why the command cannot call it; what it raises when it is called is its own."""
    if not callable(build):
        return f"is a {type(build).__name__}"
    try:
        inspect.signature(build).bind()
    except TypeError as error:
        return f"wants arguments ({error})"
    except ValueError:  # a builtin that does not tell
        return None
    return None
