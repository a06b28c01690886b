"""The product tree: where it is, what one run leaves in it, and how it is kept from growing.

    <build directory>/
        aclnn_static_shape_kernel_outputs/
            <timestamp>_<pid>_outputs/
                <pid>/            what CANN dumped: the target operators
                <pid>_debug/      every operator
                <pid>_opcompile/  those that can be compiled for fixed shapes
                static_kernel_<datetime>.run
        aclnn_static_shape_kernel_cache/        unless air.static_kernel.cache_dir is set

The dump makes the three folders of JSON files itself.  The compiler's log is added when a stage failed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from air_aclgraph.static_kernel.errors import BuildDirRefused

OUTPUTS: Final = "aclnn_static_shape_kernel_outputs"
CACHE: Final = "aclnn_static_shape_kernel_cache"
INSTALLED: Final = "aclnn_static_shape_kernel_installed"
LOG: Final = "op_compiler.log"
_RUN: Final = re.compile(r"\d+_(\d+)_outputs")


def build_dir_of(given: str | None) -> Path:
    """The build directory: the one given, made where it is not there, or that of the script being run.

    Raises if it cannot be used.
    """
    folder = Path(given) if given is not None else _beside_the_script()
    if given is not None:
        with contextlib.suppress(OSError):  # what is wrong with the folder is said below
            folder.mkdir(parents=True, exist_ok=True)
    reason = _unusable(folder)
    if reason is not None:
        origin = "" if given is not None else ", the directory of the script being run,"
        raise BuildDirRefused(
            f"static kernels are to be built in {str(folder)!r}{origin} {reason}",
            advice="set experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir to a directory "
            "that this user can read and write, or make",
            directory=str(folder),
        )
    return folder.absolute()


def _beside_the_script() -> Path:
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path.cwd() if file is None else Path(file).absolute().parent


def _unusable(folder: Path) -> str | None:
    if not folder.is_dir():
        return "which is no directory" if folder.exists() else "which does not exist"
    if not os.access(folder, os.R_OK | os.X_OK):
        return "which cannot be read"
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"which cannot be written ({error.strerror})"


def new_outputs(build_dir: Path) -> Path:
    """The folder of one run, made now; its name is unique."""
    root = build_dir / OUTPUTS
    root.mkdir(exist_ok=True)
    while True:
        folder = root / f"{datetime.now():%Y%m%d%H%M%S%f}_{os.getpid()}_outputs"
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder


def runs(build_dir: Path) -> list[Path]:
    """The folders of all runs below a build directory, the oldest first."""
    root = build_dir / OUTPUTS
    return sorted(f for f in root.iterdir() if _RUN.fullmatch(f.name)) if root.is_dir() else []


def owner(run: Path) -> int:
    """The process that made the folder of a run."""
    match = _RUN.fullmatch(run.name)
    assert match is not None
    return int(match[1])


def nbytes(folder: Path) -> int:
    """Bytes of the files below a folder; files with several names count each time."""
    return sum(file.lstat().st_size for file in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):
        yield from (Path(parent) / name for name in names)


def is_alive(pid: int) -> bool:
    """Whether a process of this machine exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def prune(build_dir: Path, keep_bytes: int) -> list[Path]:
    """Removes the oldest runs of processes that have ended until the rest fits; gives what was removed."""
    return removed_until(keep_bytes, runs(build_dir), lambda run: not is_alive(owner(run)))


def removed_until(
    keep_bytes: int, folders: Sequence[Path], may_go: Callable[[Path], bool] = lambda folder: True
) -> list[Path]:
    """Removes the first of some folders until the rest fits; gives what was removed."""
    sizes = {folder: nbytes(folder) for folder in folders}
    total, removed = sum(sizes.values()), list[Path]()
    for folder, size in sizes.items():
        if total > keep_bytes and may_go(folder):
            total -= size
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
    return removed
