"""How sessions start pytest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import nox

from house.packages import ROOT

WORKERS: Final = ("-n", "2", "--dist", "worksteal")  # long tests of one module end up on both
RESULTS: Final = ROOT / ".nox" / "results"
NO_TESTS: Final = 5  # pytest's exit code


def pytest(session: nox.Session, *arguments: str, env: dict[str, str]) -> None:
    """Runs pytest with its results kept for the ledger; finding no test at all is a failure."""
    result = RESULTS / f"{session.name}.xml"
    command = ("python", "-m", "pytest", "-q", "--timeout", "900", "--durations", "5", f"--junitxml={result}")
    session.run(*command, *arguments, *session.posargs, env=env)


def in_turn(session: nox.Session, packages: Sequence[str], *arguments: str, env: dict[str, str]) -> None:
    """pytest for one package after the other: modules of two test folders may have the same name.

    Paths after `--` are tested instead. That a package has no such test is no failure here.
    """
    for where in session.posargs or [f"packages/{package}/tests" for package in packages]:
        command = ("python", "-m", "pytest", "-q", "--timeout", "1800", *WORKERS, *arguments, where)
        session.run(*command, env=env, success_codes=[0, NO_TESTS])
