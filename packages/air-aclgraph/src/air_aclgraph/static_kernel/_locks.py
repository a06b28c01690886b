"""Locks between processes of one node, which the kernel releases when their holder ends, however it ends.

They are advisory locks of files in a directory of the user's own below the temporary directory of the machine:
what they protect (the operator library of CANN, the turn to compile) belongs to the node.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from air_config.trust import why_untrusted

POLL_S: Final = 0.05


def state_dir(*identity: object) -> Path:
    """The folder of locks and records about one thing of this node, made if need be."""
    root = Path(tempfile.gettempdir()) / f"air_static_kernels_{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    if refusal := why_untrusted(root):
        raise PermissionError(1, refusal.reason, refusal.part)
    folder = root / digest_of(*identity)
    folder.mkdir(exist_ok=True)
    return folder


def digest_of(*parts: object) -> str:
    """A short stable name for values that can be written as JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:24]


class Lock:
    """One lock, held exclusively or shared; each object is a holder of its own, also within a process."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._descriptor: int | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """For `pass_fds`: a child that has it keeps the lock held until it ends, whatever happens to its parent."""
        return () if self._descriptor is None else (self._descriptor,)

    def try_acquire(self, *, shared: bool = False) -> bool:
        """Takes the lock, or changes how it is held, without waiting."""
        if self._descriptor is None:
            self._descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def acquire(
        self,
        deadline: float | None,
        *,
        shared: bool = False,
        while_waiting: Callable[[], None] | None = None,
    ) -> bool:
        """Waits until a time of `time.monotonic()`; `while_waiting` is called between tries and may raise."""
        while not self.try_acquire(shared=shared):
            if deadline is not None and time.monotonic() >= deadline:
                self.release()
                return False
            try:
                if while_waiting is not None:
                    while_waiting()
            except BaseException:
                self.release()
                raise
            time.sleep(POLL_S)
        return True

    def release(self) -> None:
        """Gives the lock back; nothing happens when it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Releases at the end a lock that was acquired before."""
        try:
            yield
        finally:
            self.release()


def write_json(file: Path, value: Any) -> None:
    """Writes a file that is never seen half-written."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=".partial-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as partial:
            json.dump(value, partial, indent=1)
        os.replace(name, file)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def read_json(file: Path) -> Any:
    """The value of a file; None when it is absent or not JSON."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
