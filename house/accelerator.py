"""Runs the tests that an accelerator can run, and keeps device, versions and counts as JSON.

    python3 -m house.accelerator              an NPU or a CUDA device; where there is neither, air-sim
    python3 -m house.accelerator --keep       writes benchmarks/results/accelerator-<ground>.json
    python3 -m house.accelerator air-streams  the tests of some packages alone
    python3 -m house.accelerator --start python3 -m house.scoreboard --measure cuda    a program in place of tests

It needs torch, pytest and this checkout. Nothing of AIR is installed and nothing is loaded from a network; modules of
tests that need a library which is not there are counted with its name.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Literal
from xml.etree import ElementTree

import tomllib

Ground = Literal["npu", "sim", "cuda"]

ROOT: Final = Path(__file__).resolve().parents[1]
TESTED: Final = ("air-streams", "air-aclgraph", "air-backend")
SCHEMA: Final = 1
CHOSEN: Final = "(accelerator or npu) and not slow"
"""Tests for NPUs alone are counted as skipped, with the reason they give."""
NOT_FOUND: Final = re.compile(r"ModuleNotFoundError: No module named '((?!air_|house)\w+)")
NO_ACCELERATOR: Final = 2
#: Asks torch, in the process of a test, what it runs on.
ASKED: Final = """
import json, platform, torch
from importlib.metadata import PackageNotFoundError, version
from air_graph.testing import devices
kind = devices.accelerator()
found = {"python": platform.python_version()}
for name in ("torch", "torch_npu", "transformers"):
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
device = kind and torch.get_device_module(kind).get_device_name()
print("ASKED" + json.dumps({"kind": kind, "device": device, "versions": found}))
"""


@dataclass(frozen=True)
class Counts:
    """What became of the tests of a package."""

    passed: int = 0
    skipped: int = 0
    failed: tuple[str, ...] = ()
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why tests were skipped, and how many for each reason."""


@dataclass(frozen=True)
class Record:
    """What one run gave."""

    ground: Ground
    device: str
    commit: str
    versions: Mapping[str, str]
    packages: Mapping[str, Counts]
    schema: int = SCHEMA


@dataclass(frozen=True)
class Machine:
    """The accelerator that a process with these sources finds."""

    ground: Ground
    device: str
    versions: Mapping[str, str]

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--sim",) if self.ground == "sim" else ()


def entry_points(folder: Path) -> None:
    """Metadata of the packages, for what is found by it: plug-ins of pytest and backends of torch."""
    for path in sorted(ROOT.glob("packages/*/pyproject.toml")):
        project = tomllib.loads(path.read_text())["project"]
        told = folder / f"{project['name'].replace('-', '_')}-0.dist-info"
        told.mkdir()
        (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n")
        groups = project.get("entry-points", {}).items()
        text = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in rows.items()) for group, rows in groups]
        (told / "entry_points.txt").write_text("\n".join(text))


def environment(folder: Path) -> dict[str, str]:
    """Sources before all that is installed, and the metadata in `folder` behind it."""
    sources = [str(path) for path in sorted(ROOT.glob("packages/*/src"))]
    known = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    path = os.pathsep.join([*sources, *known, str(folder)])
    return {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", **os.environ, "PYTHONPATH": path}


def asked(env: Mapping[str, str], *start: str) -> dict[str, object]:
    """What torch says of itself in a process of its own; nothing where it does not load."""
    done = subprocess.run(
        [*start, sys.executable, "-c", ASKED], env=dict(env), capture_output=True, text=True, cwd=ROOT
    )
    _, mark, told = done.stdout.partition("ASKED")
    found: dict[str, object] = json.loads(told) if mark else {"kind": None}
    return found


def machine(env: Mapping[str, str]) -> Machine | None:
    """The best accelerator that there is: a real one before air-sim."""
    grounds: tuple[tuple[str, tuple[str, ...]], ...] = (
        ("", ()),
        ("sim", (sys.executable, "-m", "air_sim", "run")),
    )
    for ground, start in grounds:
        found = asked(env, *start)
        kind = found["kind"]
        if kind == "npu" or (kind == "cuda" and not ground):
            simulated = ground == "sim"
            device = "air-sim" if simulated else str(found["device"])
            versions = found["versions"]
            assert isinstance(versions, dict)
            return Machine("sim" if simulated else "npu" if kind == "npu" else "cuda", device, versions)
    return None


def counts(cases: Iterable[ElementTree.Element]) -> Counts:
    """Counts the test cases of a JUnit file."""
    passed, failed, reasons = 0, [], Counter[str]()
    for case in cases:
        if (skipped := case.find("skipped")) is not None:
            reasons[skipped.get("message", "")] += 1
        elif (library := _library(case)) is not None:
            reasons[f"a module needs {library}, which is not installed"] += 1
        elif case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{case.get('classname', '')}::{case.get('name', '')}".removeprefix("::"))
        else:
            passed += 1
    return Counts(passed, sum(reasons.values()), tuple(failed), dict(sorted(reasons.items())))


def _library(case: ElementTree.Element) -> str | None:
    """The library whose absence made a module of tests impossible to read."""
    error = case.find("error")
    if error is None or error.get("message") != "collection failure":
        return None
    found = NOT_FOUND.search(error.text or "")
    return found[1] if found else None


def tested(package: str, here: Machine, env: Mapping[str, str], arguments: Sequence[str]) -> Counts:
    """Runs the tests of a package; a pytest that gives no results is one failure."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--continue-on-collection-errors",
            f"--junitxml={results}",
        ]
        chosen = ("-m", CHOSEN, *here.flags, *arguments, f"packages/{package}/tests")
        done = subprocess.run([*command, *chosen], env=dict(env), cwd=ROOT)
        if not results.exists():
            return Counts(failed=(f"pytest ended with {done.returncode} and no results",))
        return counts(ElementTree.parse(results).iter("testcase"))


def lines(record: Record) -> Iterator[str]:
    """The record for a terminal."""
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    yield f"{record.device} ({record.ground}); {versions}"
    for package, found in record.packages.items():
        yield f"{package}: {found.passed} passed, {len(found.failed)} failed, {found.skipped} skipped"
        yield from (f"  failed: {name}" for name in found.failed)
        yield from (f"  {number} skipped: {why}" for why, number in found.reasons.items())


def commit() -> str:
    """The commit of this checkout, with a mark where it has changes."""
    command = ("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m house.accelerator", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--keep", action="store_true", help="write benchmarks/results/accelerator-<ground>.json"
    )
    parser.add_argument("--json", type=Path, help="write the record to another file")
    parser.add_argument("--start", nargs=argparse.REMAINDER, help="a program that is to find these sources")
    parser.add_argument("packages", nargs="*", default=TESTED, help=f"of {', '.join(TESTED)}")
    wanted, more = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        entry_points(Path(folder))
        env = environment(Path(folder))
        if wanted.start:
            return subprocess.run(wanted.start, env=env, check=False).returncode
        if (here := machine(env)) is None:
            sys.stderr.write(
                "no accelerator: torch finds no NPU and no CUDA device, and air-sim is not here\n"
            )
            return NO_ACCELERATOR
        found = {package: tested(package, here, env, more) for package in wanted.packages}
    record = Record(here.ground, here.device, commit(), here.versions, found)
    sys.stdout.write("\n".join(lines(record)) + "\n")
    kept = ROOT / f"benchmarks/results/accelerator-{here.ground}.json"
    for path in [*([kept] if wanted.keep else []), *([wanted.json] if wanted.json else [])]:
        path.write_text(json.dumps(asdict(record), indent=1) + "\n")
    return 1 if any(result.failed or not result.passed for result in found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
