"""The sessions that every package has: tests, types, tests on torch_npu, and benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import nox
from packaging.requirements import Requirement

from house.benchmarks import BENCHMARKS, Benchmark
from house.environments import (
    ENV,
    NPU_ENV,
    TOOLS,
    base,
    browser,
    install,
    install_tested,
    library,
    npu_base,
    see,
    site_of,
)
from house.packages import PACKAGES, PURE, ROOT, closure, declared_libraries, editable, proofs, with_tests
from house.sessions.running import RESULTS, pytest, workers

# tests open the pages of these packages in a browser
PICTURED: Final = ("air-graph", "air-streams", "air-geir", "air-backend")
MYPY_CACHE: Final = ("--cache-dir", str(ROOT / ".mypy_cache"))
UNTYPED_TESTS: Final = ("air-sim",)  # its tests use torch_npu throughout, which has no types
#: torch keeps what operators gave for fake tensors. Tests that trace each program once pay for it and hardly read it:
#: a tenth of their time. The tests on torch_npu and those in long sessions keep it, as a user does.
WITHOUT_FAKE_CACHE: Final = {"TORCH_FAKE_TENSOR_DISPATCH_CACHE": "0"}


def tests(session: nox.Session, package: str) -> None:
    """The tests that need no device, with only what the package declares."""
    install_tested(session, package)
    if package in PICTURED:
        browser(session)
    where = f"packages/{package}/tests"
    chosen = ("-m", "not npu and not slow")
    pytest(session, *workers(), *proofs(package), *chosen, where, env=ENV | WITHOUT_FAKE_CACHE)


def tests_pure(session: nox.Session) -> None:
    """The tests of the package that needs no torch, on one Python; random values on the one that runs this alone.

    Nothing of it waits for the base with torch, which the other lane installs meanwhile. Workers do not pay: the tests
    take milliseconds each, and a worker collects and reports them all once more.
    """
    tools = [tool for tool in TOOLS if Requirement(tool).name in ("pytest", "pytest-timeout")]
    session.install("-q", *tools, *with_tests(PURE))
    tests, own = f"packages/{PURE}/tests", f"{sys.version_info.major}.{sys.version_info.minor}"
    fewer = () if session.python == own else ("--ignore", f"{tests}/test_properties.py")
    pytest(session, *proofs(PURE), *fewer, tests, env=ENV)


def typed_beside(session: nox.Session) -> list[Path]:
    """The libraries that everything is checked beside, with the base.

    mypy would analyse torch anew where one more of those that torch may import is found, or one less.
    """
    return [library(session, text) for text in declared_libraries(*PACKAGES)]


def types(session: nox.Session, package: str) -> None:
    """mypy --strict over the sources and the tests."""
    see(session, site_of(base(session)), *typed_beside(session))
    folder = ROOT / "packages" / package
    what = ["src"] if package in UNTYPED_TESTS else ["src", "tests"]
    own = what if any((folder / "tests").glob("[!t_c]*.py")) else ["src"]
    siblings = [f"../{name}/src" for name in closure(package) if name != package]
    session.chdir(folder)
    command = ("python", "-m", "mypy", "--config-file", "../../pyproject.toml")
    session.run(*command, *MYPY_CACHE, *what, env=ENV | {"MYPYPATH": ":".join([*own, *siblings])})


def npu(session: nox.Session, package: str) -> None:
    """The tests marked `npu`, on the real torch_npu over air-sim."""
    install_tested(session, package, npu_base(session), also=editable("air-sim"))
    ignored = ("--ignore", "packages/air-sim/tests/ops/test_opinfo.py") if package == "air-sim" else ()
    wanted = "not slow" if package == "air-sim" else "npu and not slow"
    where = f"packages/{package}/tests"
    pytest(session, "--sim", *workers(), *proofs(package), "-m", wanted, *ignored, where, env=NPU_ENV)


def bench(session: nox.Session, package: str) -> None:
    """The benchmarks of a package; tables on the terminal, JSON, where there is some, in .nox/results."""
    install(session, *with_tests(package), *editable("air-sim"))
    RESULTS.mkdir(parents=True, exist_ok=True)
    for benchmark in sorted(BENCHMARKS[package], key=lambda b: b.simulated):
        if benchmark.simulated:  # only now: transformers imports a torch_npu that it finds
            see(session, site_of(base(session)), npu_base(session))
        _bench(session, package, benchmark)


def _bench(session: nox.Session, package: str, benchmark: Benchmark) -> None:
    script = ROOT / "packages" / package / "benchmarks" / benchmark.script
    queue = "-queue" if benchmark.queue == "1" else ""
    result = str(RESULTS / f"{package}-{script.stem}{queue}.json")
    json = ("--json", result) if benchmark.writes_json else ()
    command = ("python", str(script), *benchmark.arguments, *json, *session.posargs)
    if not benchmark.simulated:
        session.run(*command, env=ENV)
        return
    noop = {"AIR_SIM_NOOP": "1"} if benchmark.noop else {}
    session.run("air-sim", "run", *command, env=NPU_ENV | {"TASK_QUEUE_ENABLE": benchmark.queue} | noop)
