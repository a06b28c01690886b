"""Kernels by the content of their operators: what was compiled once is not compiled again.

    <cache>/<context>/<package>/
        static_kernel_<datetime>.run
        manifest.json               digests of the operators in it, digest of the .run, how long it took

The context is everything besides the operators that a binary depends on: versions, chip, flags.  A package is
made in a folder of its own and renamed into place, so that it is whole or absent, whoever shares the cache.
An entry that does not agree with its manifest is removed and compiled again.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import shutil
import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from air_aclgraph.static_kernel._locks import digest_of, read_json, write_json
from air_aclgraph.static_kernel._select import Operator
from air_aclgraph.static_kernel._tree import is_alive, removed_until
from air_aclgraph.static_kernel.errors import StageFailed, files_of

log = logging.getLogger(__name__)

MANIFEST: Final = "manifest.json"
_STAGING: Final = ".staging-"
_numbers: Final = itertools.count()


@dataclass(frozen=True)
class Package:
    """One installer with static kernels, and the operators they are for."""

    folder: Path
    run: Path
    sha256: str
    operators: frozenset[str]
    seconds: float

    @property
    def name(self) -> str:
        """The name under which the installer installs: that of its file."""
        return self.run.stem


@dataclass(frozen=True)
class Found:
    """What the cache has of some operators."""

    packages: tuple[Package, ...]
    missing: tuple[Operator, ...]


class Cache:
    """The packages of one context."""

    def __init__(self, root: Path, context: Sequence[object]) -> None:
        self.root = root
        self.context = tuple(context)
        self.folder = root / digest_of(*context)

    def look_up(self, operators: Iterable[Operator]) -> Found:
        """The fewest packages, newest first, that have the operators; and the operators that none has."""
        missing = {operator.digest: operator for operator in operators}
        packages = []
        for package in self.packages():
            here = package.operators & missing.keys()
            if here and self._is_sound(package):
                packages.append(package)
                for digest in here:
                    del missing[digest]
        return Found(tuple(packages), tuple(missing.values()))

    def packages(self) -> list[Package]:
        """Every package, the newest first; an unreadable one is removed."""
        if not self.folder.is_dir():
            return []
        found = []
        for folder in self.folder.iterdir():
            if folder.name.startswith("."):
                continue
            package = _read(folder)
            if package is None:
                self._discard(folder, "its manifest cannot be read")
            else:
                found.append(package)
        return sorted(found, key=lambda package: package.name, reverse=True)

    def _is_sound(self, package: Package) -> bool:
        """Whether the installer is the one that the manifest describes."""
        try:
            whole = sha256(package.run) == package.sha256
            if whole:
                os.utime(package.folder)
        except OSError:
            whole = False
        if not whole:
            self._discard(package.folder, "its installer is damaged")
        return whole

    def _discard(self, folder: Path, reason: str) -> None:
        log.warning("static kernels: %s is removed from the cache: %s", folder, reason)
        shutil.rmtree(folder, ignore_errors=True)

    def staging(self) -> Path:
        """A new folder in which a package is made; those of this machine's ended processes are removed."""
        mine = f"{_STAGING}{digest_of(socket.gethostname())}-"
        with files_of("look up", "the kernel cache cannot be written"):
            self.folder.mkdir(parents=True, exist_ok=True)
            for old in self.folder.glob(f"{mine}*"):
                if not is_alive(int(old.name.removeprefix(mine).partition(".")[0])):
                    shutil.rmtree(old, ignore_errors=True)
            folder = self.folder / f"{mine}{os.getpid()}.{next(_numbers)}"
            folder.mkdir()
        return folder

    def publish(self, staging: Path, operators: Sequence[Operator], seconds: float) -> Package:
        """Makes what the compiler left in a staging folder a package of the cache."""
        with files_of("compile", "the package cannot be put into the cache"):
            installers = sorted(staging.glob("*.run"))
            if not installers:
                raise StageFailed(
                    "op_compiler ended without an error and wrote no .run file",
                    advice="see its log; compile again with ASCEND_GLOBAL_LOG_LEVEL=1",
                    stage="compile",
                )
            for more in installers[1:]:
                log.info("static kernels: %s is not the installer of this run", more)
            run = installers[-1]
            checksum = sha256(run)
            manifest = {
                "run": run.name,
                "sha256": checksum,
                "operators": {operator.digest: operator.name for operator in operators},
                "seconds": seconds,
                "context": list(self.context),
                "made": time.time(),
            }
            write_json(staging / MANIFEST, manifest)
            for extra in staging.iterdir():
                if extra.name not in (run.name, MANIFEST):
                    shutil.rmtree(extra) if extra.is_dir() else extra.unlink()
            target = self.folder / checksum[:24]
            if not target.exists():
                staging.rename(target)
        package = _read(target)
        assert package is not None, "a manifest that was just written"
        return package

    def expected_seconds(self, count: int) -> float | None:
        """How long so many operators take, by the packages made before; None when there is none."""
        made = [(package.seconds, len(package.operators)) for package in self.packages()]
        operators = sum(count for _, count in made)
        return sum(seconds for seconds, _ in made) / operators * count if operators else None


def entries(root: Path) -> list[Path]:
    """The folders of all packages of a cache, in every context; the one unused the longest first."""
    found = [f for f in root.glob("*/*") if f.is_dir() and not f.name.startswith(_STAGING)]
    return sorted(found, key=lambda folder: folder.stat().st_mtime)


def prune(root: Path, keep_bytes: int) -> list[Path]:
    """Removes the packages of a cache that were unused the longest until the rest fits; gives the removed."""
    return removed_until(keep_bytes, entries(root))


def sha256(file: Path) -> str:
    """The digest of a file's content."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _read(folder: Path) -> Package | None:
    manifest: Any = read_json(folder / MANIFEST)
    try:
        return Package(
            folder,
            folder / str(manifest["run"]),
            str(manifest["sha256"]),
            frozenset(manifest["operators"]),
            float(manifest["seconds"]),
        )
    except (TypeError, KeyError, ValueError):
        return None
