"""The interpreter that sessions run on: one with this version of Python that was built with its optimisations.

Tests are Python for the most part, and they take a fifth less time on a Python that was built by the profile of its
own tests. pyenv does not build it so; systems do, and so do most who hand Python out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

#: Where the choice is kept for every nox that a session starts, whatever runs that one.
CHOSEN: Final = "HOUSE_PYTHON"
NAME: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
SYSTEM: Final = "/usr/bin"
#: Prints the interpreter below any virtual environment; fails where it lacks what sessions need or was built plainly.
ASKED: Final = f"""
import pathlib, sqlite3, ssl, sys, sysconfig, venv
assert pathlib.Path(sysconfig.get_path("include"), "Python.h").exists()
words = sysconfig.get_config_var("CONFIG_ARGS") or ""
assert "--enable-optimizations" in words or sys.base_prefix == "/usr"
below = pathlib.Path(sys.base_prefix, "bin", {NAME!r})
print(below if below.exists() else sys.executable)
"""


def optimised(interpreter: str) -> str | None:
    """The interpreter below any virtual environment, if sessions run fast on it."""
    ran = subprocess.run([interpreter, "-I", "-c", ASKED], capture_output=True, text=True, check=False)
    return None if ran.returncode else ran.stdout.strip()


def others() -> list[str]:
    """The first interpreter of this version on PATH, and that of the system."""
    found = (shutil.which(NAME), shutil.which(NAME, path=SYSTEM))
    return [path for path in found if path]


def first_optimised(own: str, among: Iterable[str]) -> str:
    """The first interpreter that is optimised; `own` where none is."""
    return next(filter(None, map(optimised, (own, *among))), own)


def interpreter() -> str:
    """The interpreter for sessions, chosen once for this process and those it starts."""
    if not os.environ.get(CHOSEN):
        below = Path(sys.base_prefix, "bin", NAME)
        own = str(below) if below.exists() else sys.executable
        os.environ[CHOSEN] = first_optimised(own, others())
    return os.environ[CHOSEN]
