"""The air-sim command: build, info, run."""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import sys
import time
from collections.abc import Sequence

from air_config.terminal import printing
from air_sim._activate import environment
from air_sim._build import build, cache_folder
from air_sim._info import describe
from air_sim._switches import Switches, variable
from air_sim.errors import AirSimError, MissingCommand


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="air-sim", description="A software Ascend under the real torch_npu wheel."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("build", help="compile the libraries for this Python environment")
    make.add_argument("--force", action="store_true", help="compile everything again")
    make.add_argument("--jobs", type=int, help="compilers at a time (default: 2)")
    commands.add_parser("info", help="versions, folders, switches, and what the numbers do not mean")
    run = commands.add_parser("run", help="run a command on air-sim: air-sim run python script.py")
    run.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a switch, for example devices=2"
    )
    run.add_argument("program", nargs=argparse.REMAINDER, help="the command and its arguments")
    return parser


def _build(arguments: argparse.Namespace) -> int:
    started, cpu = time.monotonic(), os.times()
    libraries = build(force=arguments.force, jobs=arguments.jobs)
    used = os.times()
    cpu_s = used.children_user + used.children_system - cpu.children_user - cpu.children_system
    print(f"{libraries.folder}: {time.monotonic() - started:.1f} s, {cpu_s:.1f} s of CPU time")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    pairs = (text.partition("=") for text in arguments.set)
    switches = Switches.of({name: value for name, _, value in pairs})
    program = arguments.program[1:] if arguments.program[:1] == ["--"] else arguments.program
    program = program or ["python"]
    if program[0] in ("python", "python3"):
        program[0] = sys.executable
    path = shutil.which(program[0])
    if path is None:
        raise MissingCommand(program[0])
    os.environ.update(environment(build(), switches))
    os.execv(path, program)


def _info() -> int:
    print(describe(cache_folder(), variable))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the air-sim command."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    arguments = _parser().parse_args(argv)
    try:
        if arguments.command == "build":
            return _build(arguments)
        if arguments.command == "run":
            return _run(arguments)
        return printing(_info)
    except AirSimError as error:
        print(f"air-sim: {error}", file=sys.stderr)
        return 1
