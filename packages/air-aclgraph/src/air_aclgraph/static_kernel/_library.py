"""An operator library into which installers are run: shared by the node, or private to the job.

Three things go wrong with installing into a place that several processes read, and each has its rule here:

- somebody reads while another writes: installers hold the library's lock alone, readers hold it together;
- an installer fails, or is killed, half-way: what is being installed is written down first, so that it is taken
  away by whoever comes next, before anything is read;
- a process uninstalls what others still use: each user of a package holds a lock on it until its exit, and the
  last one uninstalls.  A process that dies holds nothing, so nothing stays for ever.

No signal handler is set: what a killed process leaves is removed by the next one.
"""

from __future__ import annotations

import atexit
import logging
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from air_aclgraph.static_kernel._cache import Package
from air_aclgraph.static_kernel._locks import Lock, read_json, state_dir, write_json
from air_aclgraph.static_kernel._toolkit import Toolkit
from air_aclgraph.static_kernel.errors import StageFailed, files_of, last_lines
from air_config.trust import why_untrusted

log = logging.getLogger(__name__)

KERNELS: Final = Path("static_kernel") / "ai_core"
INSTALL_LIMIT_S: Final = 600.0
PRESENCE_LIMIT_S: Final = 30.0
EXIT_LIMIT_S: Final = 10.0


class Library:
    """A library, its lock, and the packages of this process in it."""

    def __init__(self, path: Path, *, private: bool) -> None:
        self.path = path
        self.private = private
        self._state = state_dir("library", str(path.resolve()))
        (self._state / "users").mkdir(exist_ok=True)
        (self._state / "packages").mkdir(exist_ok=True)
        self._mine: dict[str, Lock] = {}
        self._pid = os.getpid()
        atexit.register(self.leave)

    @property
    def installed(self) -> frozenset[str]:
        """Names of the packages that this process uses."""
        return frozenset(self._mine)

    @contextmanager
    def present(self) -> Iterator[None]:
        """While operators run whose kernels may be looked up: installers wait for it, though not for ever."""
        lock = Lock(self._state / "presence.lock")
        lock.acquire(time.monotonic() + PRESENCE_LIMIT_S, shared=True)
        with lock.held():
            yield

    def install(self, package: Package, toolkit: Toolkit, log_file: Path) -> bool:
        """Makes a package part of the library; False when another process had done so."""
        if package.name in self._mine:
            return False
        users = Lock(self._state / "users" / package.name)
        with (
            files_of("install", "the operator library cannot be written"),
            self._locked(shared=False) as lock,
        ):
            self._sweep()
            users.try_acquire(shared=True)
            there = read_json(self._record(package.name))
            installed = there is not None and there["done"] and Path(there["place"]).is_dir()
            if not installed:
                with self._nobody_present():
                    self._run_installer(package, toolkit, log_file, users, lock)
        self._mine[package.name] = users
        return not installed

    def _run_installer(
        self, package: Package, toolkit: Toolkit, log_file: Path, users: Lock, lock: Lock
    ) -> None:
        if refusal := why_untrusted(package.run):
            raise StageFailed(
                f"the installer {package.run} is not run, because others could have changed it: "
                f"{refusal.part} {refusal.reason}",
                advice="take that over (chown, chmod go-w) if you trust what is in it, or set "
                "air.static_kernel.cache_dir to a directory of your own",
                stage="install",
            )
        record = self._record(package.name)
        place = self.path / KERNELS / package.name
        command = [str(package.run)]
        if self.private:
            self.path.mkdir(parents=True, exist_ok=True)
            command.append(f"--install-path={self.path}")
        if toolkit.quiet:
            command.append("-q")
        write_json(record, {"place": str(place), "done": False})
        try:
            _call(command, log_file, lock)
            found = self._found(package.name)
            if found is None:
                raise StageFailed(
                    f"the installer ended without an error, and there is no {place}",
                    advice="see that ASCEND_OPP_PATH is the operator library of the toolkit in use",
                    stage="install",
                    command=shlex.join(command),
                    log=str(log_file),
                )
            write_json(record, {"place": str(found), "done": True})
        except BaseException:
            users.release()
            self._remove(record)
            raise

    def _found(self, name: str) -> Path | None:
        """Where a package lies: below the library, or below another version beside it."""
        places = [self.path / KERNELS / name]
        home = os.environ.get("ASCEND_HOME_PATH")
        if home and not self.private:
            places += sorted(Path(home).parent.glob(f"*/opp/{KERNELS}/{name}"))
        return next((place for place in places if place.is_dir()), None)

    def reselect(self, toolkit: Toolkit) -> None:
        """Makes this process look for kernels again, when nothing half-installed is there."""
        with files_of("reselect", "the state of the operator library is unknown"):
            while True:
                with self._locked(shared=True):
                    if not any(self._broken()):
                        self._reselect(toolkit)
                        return
                with self._locked(shared=False):
                    self._sweep()

    def _reselect(self, toolkit: Toolkit) -> None:
        try:
            toolkit.reselect(self.path if self.private else None)
        except RuntimeError as error:
            raise StageFailed(
                f"CANN did not look for static kernels again: {error}",
                advice="see the CANN log; static kernels need a CANN whose operator API can reselect",
                stage="reselect",
            ) from error

    @contextmanager
    def _locked(self, *, shared: bool, limit_s: float = INSTALL_LIMIT_S) -> Iterator[Lock]:
        lock = Lock(self._state / "library.lock")
        if not lock.acquire(time.monotonic() + limit_s, shared=shared):
            raise StageFailed(
                f"another process has been writing to {self.path} for {limit_s:g} s",
                advice="see whether an installer of static kernels hangs on this machine",
                stage="reselect" if shared else "install",
            )
        with lock.held():
            yield lock

    @contextmanager
    def _nobody_present(self) -> Iterator[None]:
        lock = Lock(self._state / "presence.lock")
        if not self.private and not lock.acquire(time.monotonic() + PRESENCE_LIMIT_S):
            log.info("static kernels: installing although another process is in its first run")
        with lock.held():
            yield

    def _record(self, name: str) -> Path:
        return self._state / "packages" / f"{name}.json"

    def _broken(self) -> Iterator[Path]:
        """Records of packages that nobody is installing and that are not installed."""
        for record in (self._state / "packages").glob("*.json"):
            value = read_json(record)
            if value is None or not value["done"]:
                yield record

    def _sweep(self) -> None:
        """Takes away what processes that ended left; the library's lock is held alone."""
        for record in (self._state / "packages").glob("*.json"):
            if record.stem not in self._mine:
                self._remove_unused(record)

    def _remove_unused(self, record: Path) -> None:
        users = Lock(self._state / "users" / record.stem)
        if users.try_acquire():
            with users.held():
                self._remove(record)
        else:
            users.release()

    def _remove(self, record: Path) -> None:
        """Uninstalls a package by its own script; half of one, which may have none, is deleted."""
        value: Any = read_json(record) or {"place": str(self.path / KERNELS / record.stem)}
        place = Path(value["place"])
        script = place / "uninstall.sh"
        if script.is_file():
            subprocess.run([str(script)], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if place.is_dir():
            shutil.rmtree(place, ignore_errors=True)
        record.unlink(missing_ok=True)

    def leave(self) -> None:
        """Ends this process's use of its packages; the last user uninstalls."""
        if os.getpid() != self._pid:
            return  # a fork: the packages are its parent's
        names = list(self._mine)
        for lock in self._mine.values():
            lock.release()
        self._mine.clear()
        if names:
            try:
                with self._locked(shared=False, limit_s=EXIT_LIMIT_S):
                    for name in names:
                        self._remove_unused(self._record(name))
                    self._remove_private()
            except (OSError, StageFailed) as error:
                log.warning("static kernels: %s is left to the next process: %s", ", ".join(names), error)

    def _remove_private(self) -> None:
        """A private library goes with its last package."""
        if self.private and not any((self._state / "packages").glob("*.json")):
            shutil.rmtree(self.path, ignore_errors=True)


def _call(command: Sequence[str], log_file: Path, lock: Lock) -> None:
    """Runs an installer, its output at the end of the log.

    It inherits the library's lock: should this process be killed, nobody reads before the installer has ended.
    """
    try:
        with log_file.open("ab") as output:
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=INSTALL_LIMIT_S,
                pass_fds=lock.descriptors,
                check=False,
            ).returncode
    except subprocess.TimeoutExpired:
        code = None
    except OSError as error:
        raise StageFailed(
            f"the installer cannot be started: {error}",
            advice="see that its directory is not mounted noexec",
            stage="install",
            command=shlex.join(command),
        ) from error
    if code != 0:
        raise StageFailed(
            f"the installer {'failed' if code is not None else 'was ended after its time'}:\n    "
            + last_lines(log_file),
            advice="see the log; the half of it that was installed has been removed",
            stage="install",
            command=shlex.join(command),
            exit_code=code,
            log=str(log_file),
        )
