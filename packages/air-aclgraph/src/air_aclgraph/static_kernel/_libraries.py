"""Which operator library this process installs into, and where it keeps kernels that are not to be kept.

From CANN 9.1 on kernels go into a directory of the job's own; before, into the library that all share.
"""

from __future__ import annotations

import atexit
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from air_aclgraph.static_kernel import _tree
from air_aclgraph.static_kernel._library import Library
from air_aclgraph.static_kernel._locks import Lock, digest_of, state_dir
from air_aclgraph.static_kernel._options import Options
from air_aclgraph.static_kernel._toolkit import Toolkit
from air_aclgraph.static_kernel.errors import StageFailed
from air_config import variables

SCRATCH_LIMIT_S: Final = 5.0
_SCRATCH: Final[dict[str, Lock]] = {}
_LIBRARIES: Final[dict[Path, Library]] = {}
_JOB: Final = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")


def library_for(toolkit: Toolkit, options: Options) -> Library:
    """The library of this process; one object for each path, since a process has one set of packages."""
    private = toolkit.private
    path = _private(options) if private else toolkit.library()
    if path not in _LIBRARIES:
        _LIBRARIES[path] = Library(path, private=private)
    return _LIBRARIES[path]


def _private(options: Options) -> Path:
    root = options.install_dir or options.build_dir / _tree.INSTALLED
    return root / job()


def job() -> str:
    """A name that the processes of one job on this node share, and no other job of it does."""
    if variables.number("LOCAL_WORLD_SIZE", 1, low=1) == 1:
        return f"process_{os.getpid()}"
    return "job_" + digest_of(os.getppid(), *(os.environ.get(name) for name in _JOB))


@contextmanager
def presence(toolkit: Toolkit, options: Options) -> Iterator[None]:
    """While a model runs for the first time: installers into its library wait, if the library is known."""
    try:
        library = library_for(toolkit, options)
    except (StageFailed, OSError):
        yield  # the stage that needs the library says what is wrong with it
        return
    with library.present():
        yield


def scratch_cache() -> Path:
    """A cache for this job alone, empty at its start and removed at its end."""
    name = job()
    if name not in _SCRATCH:
        folder = state_dir("scratch", name)
        users = Lock(folder / "users.lock")
        if users.try_acquire():
            shutil.rmtree(folder / "cache", ignore_errors=True)
        users.acquire(time.monotonic() + SCRATCH_LIMIT_S, shared=True)
        _SCRATCH[name] = users
        atexit.register(_leave_scratch, users, folder / "cache", os.getpid())
    return _SCRATCH[name].file.parent / "cache"


def _leave_scratch(users: Lock, cache: Path, pid: int) -> None:
    if os.getpid() == pid and users.try_acquire():
        shutil.rmtree(cache, ignore_errors=True)
    users.release()
