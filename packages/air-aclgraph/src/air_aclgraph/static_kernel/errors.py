"""Errors and the warning of static kernel compilation: which stage, what command, how it ended, where its log is.

A `StageFailed` never reaches the caller of a compiled model: the pipeline turns it into one
`StaticKernelWarning` and the model goes on without static kernels.  What is wrong before any work has begun (a
build directory that is not there, a symbol that the graph does not have) is raised.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from air_aclgraph.errors import AclGraphError

LAST_LINES: Final = 5


class StaticKernelWarning(UserWarning):
    """A stage failed, and the model runs without static kernels.

    The results are right; the model is only slower. Read the stage, the command and the log that the message names.
    """


@dataclass(eq=False)
class BuildDirRefused(AclGraphError):
    """The build directory does not exist, or cannot be read and written.

    Create the directory, make it readable and writable for this user, or name another one.
    """

    directory: str = ""


@dataclass(eq=False)
class SymbolRefused(AclGraphError):
    """The watched symbol does not belong to the graph.

    Choose an index below the number of symbols that the message gives.
    """

    index: int = 0
    symbols: int = 0


@dataclass(eq=False)
class StageFailed(AclGraphError):
    """One stage of the pipeline failed; plain strings and numbers, so that it travels between processes.

    Read the command, its exit code and the log; the message says what to do.
    """

    stage: str = ""
    command: str = ""
    exit_code: int | None = None
    log: str = ""
    operators: tuple[str, ...] = ()

    def details(self) -> Iterable[tuple[str, object]]:
        yield "stage", self.stage
        yield "command", self.command
        yield "exit code", self.exit_code
        yield "log", self.log

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {**asdict(self), "where": None, "operators": list(self.operators)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> StageFailed:
        """The failure that another process wrote down."""
        return cls(**{**fields, "operators": tuple(fields["operators"])})


@contextmanager
def files_of(stage: str, problem: str) -> Iterator[None]:
    """What the operating system refuses inside (full disk, missing rights) is a failure of the stage."""
    try:
        yield
    except OSError as error:
        advice = "choose a directory that this user can read and write"
        if error.errno == errno.ENOSPC:
            advice = "free space there, or choose another directory"
        said = f"{problem}: {error.strerror or error} ({error.filename})"
        raise StageFailed(said, advice=advice, stage=stage) from error


def last_lines(log: Path) -> str:
    """The end of a log, for a message."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return ""
    return "\n    ".join(lines[-LAST_LINES:])
