"""A run of everything in two lanes: most tests of the packages, and beside them all other checks and tests.

`ahead` starts the second lane, a nox of its own, and `beside` waits for it. What the tests leave of the processors
(an environment that is made, a session that begins or ends) goes to the other lane, and no session is in both.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import nox

from house.packages import ROOT
from house.sessions.running import LANES

LANE: Final = "beside"  # the tag of its sessions
COMMAND: Final = (sys.executable, "-m", "nox", "--no-color", "-t", LANE)
REPORT: Final = ROOT / ".nox" / f"{LANE}.log"
_started: list[subprocess.Popen[bytes]] = []


def ahead(session: nox.Session) -> None:
    """Starts the second lane, which installs and builds first what sessions of both wait for (`prepare`).

    A session that comes to something unfinished waits for it; what has failed it does itself, and says how.
    """
    os.environ[LANES] = "2"
    _started.append(start(COMMAND, REPORT))


def start(command: tuple[str, ...], report: Path) -> subprocess.Popen[bytes]:
    """A process whose output goes to a file, and which does not outlive this one."""
    report.parent.mkdir(exist_ok=True)
    with report.open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    atexit.register(process.terminate)
    return process


def beside(session: nox.Session) -> None:
    """Waits for the second lane and shows what it said; without `ahead` it runs those sessions itself."""
    if not _started:
        session.run(*COMMAND, external=True)
        return
    begun = time.monotonic()
    failed = _started.pop().wait()
    session.log(f"waited {time.monotonic() - begun:.0f} s for the sessions of the other lane")
    sys.stdout.write(REPORT.read_text())
    if failed:
        session.error(f"sessions of the other lane failed; what they said is above, and in {REPORT}")
