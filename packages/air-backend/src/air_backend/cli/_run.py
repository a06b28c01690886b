"""`air run script.py`: runs a script in which `import torchair` means AIR.

With `--sim` the script runs on air-sim. The software Ascend must be there before torch is imported, so the command
starts itself again under `air-sim run`.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from pathlib import Path

from air_backend import _alias


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script", help="the script to run")
    parser.add_argument("arguments", nargs="*", default=[], help="its arguments")


def run(arguments: argparse.Namespace) -> int:
    script = Path(arguments.script)
    if not script.is_file():
        print(f"air run: there is no script {script}", file=sys.stderr)
        return 2
    _alias.install_as_torchair()
    sys.argv = [str(script), *arguments.arguments]
    sys.path.insert(0, os.fspath(script.resolve().parent))
    runpy.run_path(str(script), run_name="__main__")
    return 0
