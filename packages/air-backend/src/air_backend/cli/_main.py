"""Reads the command line and calls one sub-command; each lives in a module of its own.

What has to happen before torch is imported happens here: `--sim` starts the command again on air-sim, and a torch_npu
that would not find CANN is kept from loading, so that `air doctor` can say what is wrong instead of failing with it.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from air_backend._npu_plugin import keep_unloaded
from air_backend._version import __version__
from air_backend.cli import _sim
from air_backend.cli._bench import checkout
from air_backend.errors import CannotSimulate
from air_config.errors import AirError
from air_config.terminal import printing

COMMANDS: Final[dict[str, str]] = {
    "bench": "run the benchmarks of a checkout",
    "bisect": "find the pass, stream, converter or capture that makes a result wrong",
    "completion": "print the completion script for a shell",
    "demo": "run a tiny Llama in eager and in every mode, and compare results and times",
    "doctor": "check this machine, and say what to do about what does not work",
    "explain": "show what AIR decides about one function",
    "new-converter": "write an operator, its converter and a test, as a starting point",
    "new-pass": "write a pass and its test, as a starting point",
    "run": "run a script in which `import torchair` means AIR",
}

#: Commands that run something, and can run it on air-sim.
ON_A_GROUND: Final = frozenset({"bisect", "demo", "doctor", "explain", "run"})

#: Commands that act on the sources, which no wheel holds: listed where the sources are.
IN_A_CHECKOUT: Final = frozenset({"bench"})


def _before_the_script(words: Sequence[str]) -> int:
    """How many words belong to `air` itself: with `run`, those before the script."""
    if not words or words[0] != "run":
        return len(words)
    return next((at for at, word in enumerate(words) if at > 0 and not word.startswith("-")), len(words))


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the `air` command; gives the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    ours = _before_the_script(words)
    try:
        if "--sim" in words[:ours]:
            _sim.restart([*(word for word in words[:ours] if word != "--sim"), *words[ours:]])
    except CannotSimulate as error:
        print(f"air: {error}", file=sys.stderr)
        return 2
    if reason := keep_unloaded():
        print(f"air: {reason}", file=sys.stderr)
    if words[:1] != ["run"]:
        warnings.filterwarnings("ignore", "Failed to initialize NumPy")  # torch's; no command needs it
    of_script = words[ours + 1 :]  # as they are, `--` too
    parsed = parser_of(words[: ours + 1]).parse_args(words[: ours + 1])
    if of_script:
        parsed.arguments = of_script
    run: Callable[[argparse.Namespace], int] = _module_of(parsed.command).run
    if parsed.command == "run":
        return run(parsed)  # what the script raises is the script's
    try:
        return printing(lambda: run(parsed))
    except Exception as error:
        cause = getattr(error, "inner_exception", error)  # where Dynamo has wrapped it
        if not isinstance(cause, AirError):
            raise
        print(f"air {parsed.command}: {type(cause).__name__}: {cause}", file=sys.stderr)
        from air_backend.cli._ending import exit_code  # errors of layers that import torch

        return exit_code(cause)


def _module_of(command: str) -> ModuleType:
    """The module of a sub-command; commands with one first word share it."""
    return importlib.import_module(f"air_backend.cli._{command.partition('-')[0]}")


def parser_of(words: Iterable[str]) -> argparse.ArgumentParser:
    """The parser; only the modules of the sub-commands among the words are imported."""
    parser = argparse.ArgumentParser(prog="air", description="The AIR backend for torch.compile.")
    parser.add_argument("--version", action="version", version=f"air {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        if name in IN_A_CHECKOUT and name not in words and checkout(Path.cwd()) is None:
            continue
        subparser = subparsers.add_parser(name, help=summary, description=summary)
        if name in ON_A_GROUND:
            subparser.add_argument(
                "--sim", action="store_true", help="run on air-sim, under the real torch_npu"
            )
        if name in words:
            _module_of(name).add_arguments(subparser)
    return parser
