"""`air new-pass` and `air new-converter`: a file that works, and its test, to start from."""

from __future__ import annotations

import argparse
import keyword
import re
import shlex
import sys
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from air_backend.cli._usage import wrong_use

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*\Z")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="its name in snake_case, also the name of the file")
    parser.add_argument("--folder", type=Path, default=Path(), metavar="DIR", help="where to write (here)")
    parser.add_argument("--force", action="store_true", help="replace existing files")


def run(arguments: argparse.Namespace) -> int:
    command, name = arguments.command, arguments.name
    what = command.removeprefix("new-")
    if not _NAME.match(name) or keyword.iskeyword(name):
        wrong_use(command, f"{name!r} is no name in snake_case, such as fold_scales")
    if not arguments.folder.is_dir():
        wrong_use(command, f"there is no folder {arguments.folder}")
    if whose := _module_named(name, arguments.folder):
        wrong_use(command, f"{name!r} is the name of a module {whose}: choose another")
    words = {"module": name, "name": name, "Class": "".join(part.capitalize() for part in name.split("_"))}
    files = {f"{name}.py": f"{what}.txt", f"test_{name}.py": f"test_{what}.txt"}
    there = [file for file in files if (arguments.folder / file).exists()]
    if there and not arguments.force:
        wrong_use(command, f"{' and '.join(there)}: already there; --force replaces")
    templates = resources.files("air_backend.cli") / "templates"
    for file, template in files.items():
        path = arguments.folder / file
        text = (templates / template).read_text("utf-8").format(**words)
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            wrong_use(command, f"{path} cannot be written: {error.strerror}")
        print(f"wrote {path}")
    first = "" if find_spec("pytest") else "pip install pytest, then "
    print(f"try it: {first}pytest {shlex.quote(str(arguments.folder / f'test_{name}.py'))}")
    return 0


def _module_named(name: str, folder: Path) -> str:
    """Whose module a file of this name would hide; nothing where there is none but the one that may be replaced."""
    if name in sys.stdlib_module_names:
        return "of Python"
    found = find_spec(name)
    if found is None or found.origin is None or Path(found.origin).resolve().parent == folder.resolve():
        return ""
    return f"that is installed ({found.origin})"
