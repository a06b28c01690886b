"""Lays out the folder that ASCEND_HOME_PATH names: the few files and tools of the CANN toolkit that Python asks for.

`<toolkit>/<version>/` has the folders torch_npu checks for, `opp` where static kernels are installed, and `bin` with
the stand-in for op_compiler.  It lies beside the compiled libraries and belongs to the user who built them.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path

from air_sim._build import Libraries
from air_sim._switches import Switches
from air_sim.errors import UnusableCache

_FOLDERS = ("runtime", "compiler", "opp", "bin", "lib64")
_OP_COMPILER = Path(__file__).parent / "tools" / "op_compiler.py"


def _write_once(file: Path, text: str) -> None:
    """Processes may start at the same time: the file appears whole or not at all."""
    if file.exists() and file.read_text(encoding="utf-8") == text:
        return
    descriptor, partial = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as open_file:
            open_file.write(text)
        Path(partial).chmod(0o755)
        Path(partial).rename(file)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def make_toolkit(libraries: Libraries, switches: Switches) -> dict[str, str]:
    """Creates the toolkit if need be; returns the environment variables that make programs find it."""
    home = libraries.folder / "toolkit" / switches.cann
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(_OP_COMPILER))}"
    try:
        for name in _FOLDERS:
            (home / name).mkdir(parents=True, exist_ok=True)
        _write_once(home / "bin" / "op_compiler", f'#!/bin/sh\nexec {command} "$@"\n')
    except OSError as error:
        raise UnusableCache(str(libraries.folder), error.strerror or str(error)) from error
    tools = str(home / "bin")
    path = [part for part in os.environ.get("PATH", "").split(os.pathsep) if part and part != tools]
    return {
        "ASCEND_HOME_PATH": str(home),
        "ASCEND_OPP_PATH": str(home / "opp"),
        "PATH": os.pathsep.join([tools, *path]),
    }
