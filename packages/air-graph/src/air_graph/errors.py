"""The errors of air-graph."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Any, Final

from air_config.errors import AirError

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


def first_line(error: BaseException) -> str:
    """The first line of what an error says; the name of its type where it says nothing, as a bare assert does."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


class GraphError(AirError):
    """Base of the errors of air-graph.

    Catch it to handle every error of the package.
    """


@dataclass(eq=False)
class BadRegistration(GraphError):
    """A table row contradicts the schema of the operator it names, or names one twice.

    Compare the row with the schema of the operator; `print(torch.ops.ns.op.default._schema)` shows it.
    """

    table: str
    row: str
    problem: str
    what = "{table}: {row} refused: {problem}"
    advice = "correct the row, or leave it out"


class NoSuchModule(GraphError, ImportError):
    """A file or module that a command line names is not there.

    Give the path of a Python file, or the name of a module that can be imported here.
    """


class CannotWrite(GraphError, OSError):
    """A file or folder that was asked for cannot be written; no partial file is left.

    The message says why, and where: free space, get write permission, or name another place.
    """

    def __init__(self, thing: str, place: str | os.PathLike[str], error: OSError) -> None:
        self.thing = thing
        self.place = os.fspath(place)
        self.cause = error
        reason = error.strerror or str(error) or type(error).__name__
        shown = os.fsencode(self.place).decode("utf-8", "backslashreplace")
        advice = _ADVICE.get(error.errno or 0, "")
        super().__init__(f"{thing} cannot be written: {reason}", where=shown, advice=advice)
        OSError.__init__(self, error.errno or errno.EIO, reason, self.place)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.thing, self.place, OSError(self.errno, self.strerror))
