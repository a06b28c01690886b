"""The errors of air-graph."""

from __future__ import annotations

import errno
import os
from typing import Final

_FREE: Final = "free space there, or name another place"
_RIGHTS: Final = "name a place that this user may write"
_ADVICE: Final = {
    errno.ENOSPC: _FREE,
    errno.EDQUOT: _FREE,
    errno.EFBIG: _FREE,
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: _RIGHTS,
    errno.ENOTDIR: "a file lies where a folder is wanted: move it away, or name another place",
    errno.EEXIST: "a file lies where a folder is wanted: move it away, or name another place",
    errno.EISDIR: "a folder lies where the file is wanted: name a file",
    errno.ENOENT: "make the folder first, or name one that is there",
    errno.ENAMETOOLONG: "name a shorter path",
    errno.EILSEQ: "name a path that is Unicode text",
    errno.ELOOP: "the symbolic links there go in a circle: name another place",
}


class GraphError(Exception):
    """Base of the errors of air-graph.

    Catch it to handle every error of the package.
    """


class BadRegistration(GraphError):
    """A table row contradicts the schema of the operator it names, or names one twice.

    Compare the row with the schema of the operator; `print(torch.ops.ns.op.default._schema)` shows it.
    """

    def __init__(self, table: str, row: str, problem: str) -> None:
        self.table = table
        self.row = row
        self.problem = problem
        super().__init__(table, row, problem)

    def __str__(self) -> str:
        return f"{self.table}: {self.row} refused: {self.problem}"


class CannotWrite(GraphError, OSError):
    """A file or folder that was asked for cannot be written; nothing half-written is left.

    The text says why, and where: free space, take the rights, or name another place.
    """

    def __init__(self, what: str, place: str | os.PathLike[str], error: OSError) -> None:
        reason = error.strerror or str(error) or type(error).__name__
        super().__init__(error.errno or errno.EIO, reason, os.fspath(place))
        self.what = what
        self.place = os.fspath(place)
        self.cause = error

    def __str__(self) -> str:
        shown = os.fsencode(self.place).decode("utf-8", "backslashreplace")
        lines = [f"{self.what} cannot be written: {self.strerror}", f"  at      {shown}"]
        advice = _ADVICE.get(self.errno or 0)
        return "\n".join([*lines, *([f"  advice  {advice}"] if advice else [])])

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.what, self.place, OSError(self.errno, self.strerror))
