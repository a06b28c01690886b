"""How sessions start pytest."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import nox
from nox.command import CommandFailed

from house.packages import ROOT

WORKERS: Final = ("-n", "2", "--dist", "worksteal")  # long tests of one module end up on both
#: Set where a second lane has the other processor; AIR warns of a variable AIR_... that it does not know.
LANES: Final = "HOUSE_LANES"
RESULTS: Final = ROOT / ".nox" / "results"
NO_TESTS: Final = 5  # pytest's exit code


def workers() -> tuple[str, ...]:
    """Two processes, unless sessions run in two lanes: each process imports torch and finds all tests anew."""
    return () if os.environ.get(LANES) else WORKERS


def pytest(session: nox.Session, *arguments: str, env: dict[str, str]) -> None:
    """Runs pytest with its results kept for the ledger; finding no test at all is a failure."""
    result = RESULTS / f"{session.name}.xml"
    command = ("python", "-m", "pytest", "-q", "--timeout", "900", "--durations", "5", f"--junitxml={result}")
    session.run(*command, *arguments, *session.posargs, env=env)


def passes(session: nox.Session, *command: str, env: dict[str, str], codes: Sequence[int] = (0,)) -> bool:
    """Whether a command ends well; the session goes on if it does not."""
    try:
        session.run(*command, env=env, success_codes=codes)
    except CommandFailed:
        return False
    return True


def in_turn(session: nox.Session, packages: Sequence[str], *arguments: str, env: dict[str, str]) -> None:
    """pytest for one package after the other: modules of two test folders may have the same name.

    Paths after `--` are tested instead. That a package has no such test is no failure here.
    """
    command = ("python", "-m", "pytest", "-q", "--timeout", "1800", *WORKERS, *arguments)
    tested = session.posargs or [f"packages/{package}/tests" for package in packages]
    failed = [where for where in tested if not passes(session, *command, where, env=env, codes=(0, NO_TESTS))]
    if failed:
        session.error(f"tests failed in {', '.join(failed)}")
