"""Runs the tests of one module, each in a process of its own with a time limit of its own.

    python -m house.clients.runner MODULE.py --air --seconds 60        one line of JSON for each test

The module is imported once, before any device is used; a fork of this process runs one test and is then gone, with
whatever the test did to it. With `--air` AIR stands in before the module is imported, as `air run` does it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NoReturn

IMPORT: Final = "(import)"  # the name under which a module that cannot be imported is told
SAID: Final = 4000  # characters of a failure that are kept, of its end


def flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flat(item)
        else:
            yield item


def short(test: unittest.TestCase) -> str:
    """Class and method; the module is known."""
    return ".".join(test.id().split(".")[-2:])


def outcome(test: unittest.TestCase, calls: str = "") -> tuple[str, str]:
    """Runs a test here: "pass", "skip", "fail" or "unseen", and what was said.

    With `calls` the test is eager, and fails where a call of an operator is another one when it is compiled that way.
    """
    result = unittest.TestResult()
    if calls:
        with importlib.import_module("house.clients.calls").Calls(calls) as judge:
            test.run(result)
        if judge.differences:
            return "fail", "\n".join(judge.differences)
    else:
        test.run(result)
    if bad := result.failures + result.errors:
        return "fail", bad[0][1]
    if result.unexpectedSuccesses:
        return "fail", "passed, although it is marked as one that fails"
    if result.skipped:
        return "skip", result.skipped[0][1]
    insides = sys.modules.get("house.clients.insides")
    if insides is not None and insides.replaced:
        return (
            "unseen",
            f"passes, and has replaced what AIR does not have: {', '.join(sorted(insides.replaced))}",
        )
    return "pass", ""


def run_and_leave(test: unittest.TestCase, answer: int, scratch: Path, calls: str) -> NoReturn:
    """The child: what is printed goes to a file, the outcome to the pipe; nothing is torn down."""
    os.setsid()
    os.chdir(scratch)
    sys.modules["__main__"].__file__ = str(scratch / "test.py")  # beside it some files are made
    said = os.open(scratch / "said.txt", os.O_CREAT | os.O_WRONLY)
    os.dup2(said, 1)
    os.dup2(said, 2)
    try:
        found, why = outcome(test, calls)
    except BaseException:
        found, why = "fail", traceback.format_exc()
    os.write(answer, json.dumps([found, why[-SAID:]]).encode())
    os._exit(0)


def waited(child: int, answer: int, seconds: float) -> tuple[str, str]:
    """What the child answered; "died" and "late" are ends without an answer."""
    text = b""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([answer], [], [], left)[0]:
            part = os.read(answer, 65536)
            if not part:
                break
            text += part
    else:
        return "late", f"no answer in {seconds:.0f} s"
    if text:
        found, why = json.loads(text)
        return found, why
    _, status = os.waitpid(child, os.WNOHANG)
    return "died", f"the process ended without an answer, status {status}"


def forked(test: unittest.TestCase, seconds: float, calls: str = "") -> tuple[str, str]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        answer, ours = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if not child:
            os.close(answer)
            run_and_leave(test, ours, Path(scratch), calls)
        os.close(ours)
        try:
            found, why = waited(child, answer, seconds)
        finally:
            os.close(answer)
            _end(child)
        if found in {"died", "late"}:
            printed = Path(scratch, "said.txt")
            why += f"\n{printed.read_text(errors='replace')[-SAID // 2 :]}" if printed.exists() else ""
        return found, why


def _end(child: int) -> None:
    """Ends the child and what it started."""
    gone = (ProcessLookupError, PermissionError)
    with contextlib.suppress(*gone):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(*gone):
        os.kill(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):  # it was waited for
        os.waitpid(child, 0)


def imported(path: Path, stub: str, way: str = "", calls: str = "") -> unittest.TestSuite:
    """The tests of a module, in the order in which unittest would run them."""
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]  # some read it
    if way:
        peers = importlib.import_module("house.clients.peers")
        peers.swap(way)
        load = unittest.TestLoader().loadTestsFromTestCase
        return unittest.TestSuite(map(load, peers.cases(peers.load(path))))
    if stub:
        importlib.import_module(stub)
    if calls:
        importlib.import_module("house.clients.calls").on_every_chip()
    return unittest.TestLoader().loadTestsFromModule(importlib.import_module(path.stem))


def run(
    path: Path,
    stub: str,
    seconds: float,
    wanted: str,
    tell: Callable[[str, str, str, float], None],
    way: str = "",
    calls: str = "",
) -> None:
    """Runs what a module has, or tells why it cannot be imported."""
    try:
        tests = list(flat(imported(path, stub, way, calls)))
    except BaseException:
        tell(IMPORT, "fail", traceback.format_exc()[-SAID:], 0.0)
        return
    for test in tests:
        if wanted in short(test):
            started = time.monotonic()
            found, why = forked(test, seconds, calls)
            tell(short(test), found, why, time.monotonic() - started)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m house.clients.runner", description=__doc__)
    parser.add_argument("module", type=Path)
    parser.add_argument("--air", action="store_true", help="AIR stands in")
    parser.add_argument("--compile", default="", help="compile with this in the place of torch's backends")
    parser.add_argument("--calls", default="", help="compile each call of an operator with this, alone")
    parser.add_argument("--stub", default="", help="imported before the module")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each test")
    parser.add_argument("--test", default="", help="only tests with this in their name")
    parser.add_argument("--write", type=Path, required=True, help="where the lines go")
    asked = parser.parse_args(arguments)
    if asked.air:
        importlib.import_module("air_backend").install_as_torchair()
        importlib.import_module("house.clients.standin").install()
    with asked.write.open("w") as lines:

        def tell(test: str, found: str, why: str, took: float) -> None:
            row = {"test": test, "outcome": found, "why": why, "seconds": round(took, 1)}
            lines.write(json.dumps(row) + "\n")
            lines.flush()

        run(asked.module.resolve(), asked.stub, asked.seconds, asked.test, tell, asked.compile, asked.calls)
    return 0


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # no tear-down of a device library that only forks have used
