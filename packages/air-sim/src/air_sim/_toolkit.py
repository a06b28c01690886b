"""Makes the folder that ASCEND_HOME_PATH names: the few files and tools of the CANN toolkit that Python uses.

`<toolkit>/<version>/` has the folders torch_npu checks for, `opp` where static kernels are installed, `bin` with the
stand-ins for op_compiler and atc, and the Python module `acl` where CANN has it.  It lies beside the compiled libraries
and belongs to the user who built them.
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

_MODULES = "python/site-packages"
_FOLDERS = ("runtime", "compiler", "opp", "bin", "lib64", _MODULES)
_TOOLS = Path(__file__).parent / "tools"
_ACL = '''"""CANN's module acl, which air-sim keeps in its own package."""

import sys

import air_sim.pyacl

sys.modules[__name__] = air_sim.pyacl
'''


def _write_once(file: Path, text: str) -> None:
    """Writes a file in one step: processes may start at the same time, and none must read half of it."""
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
    python = shlex.quote(sys.executable)
    libraries_at = f"AIR_SIM_LIBRARIES={shlex.quote(str(libraries.folder))}"
    try:
        for name in _FOLDERS:
            (home / name).mkdir(parents=True, exist_ok=True)
        for name in ("op_compiler", "atc"):
            command = f"{python} {shlex.quote(str(_TOOLS / name) + '.py')}"
            _write_once(home / "bin" / name, f'#!/bin/sh\n{libraries_at} exec {command} "$@"\n')
        _write_once(home / _MODULES / "acl.py", _ACL)
    except OSError as error:
        raise UnusableCache(str(libraries.folder), error.strerror or str(error)) from error
    tools = str(home / "bin")
    return {
        "ASCEND_HOME_PATH": str(home),
        "ASCEND_OPP_PATH": str(home / "opp"),
        "PATH": _first(tools, "PATH"),
        "PYTHONPATH": _first(str(home / _MODULES), "PYTHONPATH"),
    }


def _first(folder: str, variable: str) -> str:
    """A list of folders, with one in front."""
    others = [part for part in os.environ.get(variable, "").split(os.pathsep) if part and part != folder]
    return os.pathsep.join([folder, *others])
