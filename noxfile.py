"""Automation for the AIR monorepo: one family of sessions per package.

    nox                          every check CI runs, in two lanes: tests, lowest layer first, and beside them the rest
    nox -s demo                  the main job: a tiny Llama through every mode, on this machine
    nox -s demo -- --sim         the same on air-sim, under the real torch_npu
    nox -s tests-air-streams     the tests of one package, with only what it declares
    nox -s npu-air-aclgraph      the tests marked `npu`, on the real torch_npu over air-sim
    nox -t types                 mypy --strict for every package
    nox -t beside                the other lane: types, style, documents, wheels, examples, tests on air-sim
    nox -s older-torch           the tests of every package on torch 2.11 and 2.12
    nox -s other-python-3.10     the same on another Python; 3.12 and 3.13 likewise
    nox -s accelerator           the tests that need an accelerator, on the one that is here, or else on air-sim
    nox -s bench-aclgraph        the benchmarks of air-aclgraph, as a table and as JSON: the name without `air-`
    nox -s scoreboard            every benchmark as one page and docs/performance.md; `-- --quick` takes minutes
    nox -s zoo                   tiny models of every architecture of three libraries, hours; `-- --shard 3/40` of it
    nox -s clients -- --torchair PATH --torch-npu PATH     their tests from your checkouts, on AIR and on theirs
    nox -s long                  what CI has no time for, in rotation
    nox -s build install         wheels, then a newcomer's path from them alone
    nox -s release               what is published: sdists and wheels, looked into, used, tested; sums and an SBOM
    nox -s site                  the guide as a site, in build/site
    nox -s prepare               all that other sessions install or build when they first need it
    nox -l                       all sessions, also those that CI does not run

What each session does is in `house.sessions`; `house.packages` reads what packages declare, and `house.environments`
makes and shares environments.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nox

sys.path.insert(0, str(Path(__file__).resolve().parent))

from house.benchmarks import BENCHMARKS
from house.environments import PYTHONS, WITHOUT_PIP, other_pythons, reveal_interpreters
from house.interpreters import interpreter
from house.packages import NPU_TESTED, PACKAGES, PURE, TORCH_TESTED
from house.sessions import checks, lanes, long_runs, package, publishing

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"  # uv does not see a CPU build of torch that pip was pointed to
nox.options.error_on_missing_interpreters = False
nox.options.tags = ["ci"]

reveal_interpreters()
# the tests start hundreds of processes: compile a module once, and of the packages installed only what is imported
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["PIP_COMPILE"] = "0"

#: Over an environment with torch that sessions share.
THIN: dict[str, Any] = {"python": interpreter(), "venv_params": WITHOUT_PIP}
NO_ENVIRONMENT: dict[str, Any] = {"venv_backend": "none"}


def session(
    work: Callable[..., None], *tags: str, name: str | None = None, environment: dict[str, Any] = THIN
) -> None:
    """Registers `work` as a session, under its own name with dashes unless another is given."""
    nox.session(name=name or work.__name__.replace("_", "-"), tags=[*tags], **environment)(work)


def of_package(work: Callable[[nox.Session, str], None], which: str, *tags: str) -> None:
    """Registers the session that does `work` for one package."""

    @functools.wraps(work, assigned=("__doc__",))
    def bound(session: nox.Session) -> None:
        work(session, which)

    kind = work.__name__
    suffix = which.removeprefix("air-") if kind == "bench" else which
    session(bound, *tags, kind, name=f"{kind}-{suffix}")


session(lanes.ahead, "ci", environment=NO_ENVIRONMENT)
session(checks.prepare, lanes.LANE)
_own = f"{sys.version_info.major}.{sys.version_info.minor}"
_checked = [python for python in PYTHONS if python in (PYTHONS[0], PYTHONS[-1], _own)]
session(
    package.tests_pure,
    "ci",
    "tests",
    name=f"tests-{PURE}",
    environment={"python": _checked, "venv_backend": "virtualenv"},
)
for _python in set(PYTHONS) - {*_checked}:  # only by name
    session(
        package.tests_pure,
        name=f"tests-{PURE}-{_python}",
        environment={"python": _python, "venv_backend": "virtualenv"},
    )
for _name in PACKAGES:
    of_package(package.types, _name, lanes.LANE)
    if _name in TORCH_TESTED:
        of_package(package.tests, _name, "ci")
for _name in BENCHMARKS:
    of_package(package.bench, _name)

session(long_runs.sim_opinfo)
session(long_runs.sim_sanitize)
session(long_runs.fuzz)
session(long_runs.npu_fuzz)
session(long_runs.slow)
session(long_runs.npu_slow)
session(long_runs.npu_settings)
session(long_runs.long, environment=NO_ENVIRONMENT)
session(long_runs.older_torch)
session(
    long_runs.other_python,
    environment={"python": other_pythons(), "venv_backend": "virtualenv"},
)
session(long_runs.accelerator)
session(long_runs.zoo)
session(long_runs.clients)
session(long_runs.scoreboard)

session(checks.layers, lanes.LANE)
session(checks.lint, lanes.LANE)
session(checks.house, lanes.LANE)
session(checks.docs, lanes.LANE)
session(checks.site, lanes.LANE)
session(publishing.build, lanes.LANE)
session(publishing.install_wheels, lanes.LANE, name="install")
session(publishing.release)
session(publishing.demo)
session(publishing.examples, lanes.LANE)
session(publishing.examples_all)
session(publishing.examples_sim)
for _name in NPU_TESTED:
    of_package(package.npu, _name, lanes.LANE)
session(lanes.beside, "ci", environment=NO_ENVIRONMENT)
session(checks.ledger, "ci")
