"""Kinds of values that name something in the file system, checked when they are assigned."""

from __future__ import annotations

import os
from typing import Any

from air_config._kinds import Kind

__all__ = ["directory", "file"]


def _path_text(value: object) -> str:
    if not isinstance(value, (str, os.PathLike)) or isinstance(value, bytes):
        raise TypeError(None, value)
    path = os.fspath(value)
    if not isinstance(path, str):
        raise TypeError("a path of text, not of bytes")
    if "\0" in path:
        raise ValueError("the path contains a NUL character")
    if not path:
        raise ValueError("the path is empty")
    return path


def directory(*, writable: bool = False, may_be_made: bool = False) -> Kind[str]:
    """A directory that exists; with `writable`, one in which this process can read and write.

    With `may_be_made` also a path at which this process could make one.
    """

    def check(instance: Any, attribute: Any, value: Any) -> None:
        path = _path_text(value)
        if may_be_made:
            path = _nearest_existing(path)
        if not os.path.exists(path):
            raise FileNotFoundError("create it first")
        if not os.path.isdir(path):
            raise NotADirectoryError(
                f"{path!r} is not a directory" if may_be_made else "it is not a directory"
            )
        if (writable or may_be_made) and not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError("this user may not read and write in it")

    allowed = "a directory, made when it is needed" if may_be_made else "an existing directory"
    allowed += " that this user may read and write" if writable else ""
    schema = {"type": "string", "minLength": 1}
    return Kind("path", allowed, check, schema, str, store=os.fspath)


def _nearest_existing(path: str) -> str:
    """The path itself, or the closest one above it that exists."""
    path = os.path.abspath(path)
    while not os.path.exists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def file(suffix: str = "") -> Kind[str]:
    """A file that exists, with a suffix if one is named."""

    def check(instance: Any, attribute: Any, value: Any) -> None:
        path = _path_text(value)
        if not path.endswith(suffix):
            raise ValueError(f"the name must end with {suffix}")
        if not os.path.exists(path):
            raise FileNotFoundError("create it first")
        if not os.path.isfile(path):
            raise IsADirectoryError("it is not a file")
        if not os.access(path, os.R_OK):
            raise PermissionError("this user may not read it")

    allowed = f"an existing {suffix} file" if suffix else "an existing file"
    schema = {"type": "string", "minLength": 1}
    return Kind("path", allowed, check, schema, str, store=os.fspath)
