"""Writes files for people, complete or not at all; a failure is a `CannotWrite` that says what to do.

    with whole_file("out/graph.txt", "the graph") as file:   # a temporary file beside it, renamed at the end
        file.write(text)

Readers and other writers of the same name see one whole file or another, never a half. A link is written through, as
`open` does, and what is no regular file (`/dev/stdout`, a pipe) is written in place.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import torch
from torch import Tensor

from air_graph.errors import CannotWrite

__all__ = ["folder", "refuse_unwritable", "whole_file", "write_bytes", "write_npy", "write_text", "writing"]

_numbers: Final = itertools.count()


@contextlib.contextmanager
def writing(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Whatever the system refuses inside is a `CannotWrite` about `path`."""
    try:
        yield
    except CannotWrite:
        raise
    except OSError as error:
        raise CannotWrite(what, path, error) from error


def folder(path: str | os.PathLike[str], what: str) -> Path:
    """A folder that is there, or is made with those above it."""
    with writing(path, what):
        Path(path).mkdir(parents=True, exist_ok=True)
    return Path(path)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str], what: str) -> Iterator[BinaryIO]:
    """A binary file that appears under its name when the block ends, or does not appear if it raises."""
    with writing(path, what):
        target = os.path.realpath(path)
        if _in_place(target):
            with open(target, "wb") as file:
                yield file
            return
        partial = f"{target}.{os.getpid()}.{next(_numbers)}.partial"
        try:
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            with os.fdopen(descriptor, "wb") as file:
                with contextlib.suppress(FileNotFoundError):
                    os.fchmod(descriptor, stat.S_IMODE(os.stat(target).st_mode))
                yield file
            os.replace(partial, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(partial)
            raise


def refuse_unwritable(path: str | os.PathLike[str], what: str) -> None:
    """Raises now what writing the file would raise later, as far as that can be known; leaves everything as it is."""
    with writing(path, what):
        target = os.path.realpath(path)
        if os.path.isdir(target):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.path.exists(target) or not _in_place(target):
            with tempfile.TemporaryFile(dir=os.path.dirname(target)):
                return
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _in_place(target: str) -> bool:
    """Whether a file beside it is no way to write it: it is no regular file, or its folder is not ours to change."""
    try:
        found = os.stat(target)
    except OSError:
        return False
    return not stat.S_ISREG(found.st_mode) or not os.access(os.path.dirname(target), os.W_OK | os.X_OK)


def write_bytes(path: str | os.PathLike[str], data: bytes, what: str) -> Path:
    """Writes a file of bytes; gives its path."""
    with whole_file(path, what) as file:
        file.write(data)
    return Path(path)


def write_text(path: str | os.PathLike[str], text: str, what: str) -> Path:
    """Writes a file of text; what is no Unicode (a file name in a traceback, say) is written as its escape."""
    return write_bytes(path, text.encode("utf-8", "backslashreplace"), what)


def write_npy(path: str | os.PathLike[str], tensor: Tensor, what: str) -> Path:
    """The values of a tensor on any device; what numpy has no type for is widened to float32 or complex64."""
    import numpy  # torch works without it

    try:
        array = tensor.numpy(force=True)
    except TypeError:
        array = tensor.to(torch.complex64 if tensor.is_complex() else torch.float32).numpy(force=True)
    with whole_file(path, what) as file:
        numpy.save(file, array)
    return Path(path)
