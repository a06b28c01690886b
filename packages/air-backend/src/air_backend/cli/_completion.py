"""`air completion SHELL`: prints the completion script for a shell.

air completion bash > ~/.local/share/bash-completion/completions/air
"""

from __future__ import annotations

import argparse

import shtab


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=sorted(shtab.SUPPORTED_SHELLS), help="the shell to write for")


def run(arguments: argparse.Namespace) -> int:
    from air_backend.cli._main import COMMANDS, parser_of  # the parser holds this command

    print(shtab.complete(parser_of(COMMANDS), arguments.shell))
    return 0
