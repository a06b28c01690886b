"""Writes files for people, complete or not at all; a failure is a `CannotWrite` that says what to do.

    with whole_file("out/graph.txt", "the graph") as file:   # a temporary file beside it, renamed at the end
        file.write(text)

Readers and other writers of the same name see one whole file or another, never a half. A link is written through, as
`open` does, and what is no regular file (`/dev/stdout`, a pipe) is written in place.
"""

from __future__ import annotations

import contextlib
import ctypes
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

from air_graph import ranks
from air_graph.errors import CannotWrite

__all__ = [
    "folder",
    "rank_folder",
    "raw_bytes",
    "refuse_unwritable",
    "whole_file",
    "write_bytes",
    "write_npy",
    "write_text",
    "writing",
]

_numbers: Final = itertools.count()

_IN_NPY: Final = {
    torch.bool: "|b1",
    torch.int8: "|i1",
    torch.uint8: "|u1",
    torch.int16: "<i2",
    torch.uint16: "<u2",
    torch.int32: "<i4",
    torch.uint32: "<u4",
    torch.int64: "<i8",
    torch.uint64: "<u8",
    torch.float16: "<f2",
    torch.float32: "<f4",
    torch.float64: "<f8",
    torch.complex64: "<c8",
    torch.complex128: "<c16",
}
"""How a file of numpy names the types that numpy has."""


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


def rank_folder(root: str | os.PathLike[str] | None, what: str) -> Path:
    """The folder of this rank below `root`, made when it is not there. None is the working directory as it is now."""
    rank, size = ranks.rank_and_size()
    return folder(Path(os.path.abspath(root or ".")) / f"worldsize{size}_global_rank{rank}", what)


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


def raw_bytes(tensor: Tensor) -> bytes:
    """The elements of a tensor on any device, row by row, without numpy, which torch does not need either."""
    dense = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    if dense.numel() == 0:
        return b""
    return bytes((ctypes.c_char * dense.nbytes).from_address(dense.data_ptr()))


def write_npy(path: str | os.PathLike[str], tensor: Tensor, what: str) -> Path:
    """The values of a tensor on any device; what numpy has no type for is widened to float32 or complex64."""
    if tensor.dtype not in _IN_NPY:
        tensor = tensor.to(torch.complex64 if tensor.is_complex() else torch.float32)
    head = {"descr": _IN_NPY[tensor.dtype], "fortran_order": False, "shape": tuple(tensor.shape)}
    with whole_file(path, what) as file:
        file.write(_npy_head(repr(head)))
        file.write(raw_bytes(tensor))
    return Path(path)


def _npy_head(text: str) -> bytes:
    """Version 1.0 of the format: the head fills whole lines of 64 bytes, so that the values begin on one."""
    length = -(-(10 + len(text) + 1) // 64) * 64 - 10
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + text.ljust(length - 1).encode() + b"\n"
