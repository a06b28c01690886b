"""Whether code may be loaded from a path: only this user and root can have written or changed what is read.

    descriptor = open_trusted("cache/code.bin")   # or Untrusted, with the part of the path and the reason

Every part of the path is opened from the one before it, never by name again, and judged by what was opened: folders
and links on the way belong to this user or to root, and no other user may write them. Folders with the sticky bit
(`/tmp`) may be written by all, because there each entry belongs to who made it, and the entry is judged in turn. The
group may write where it is the user's private one. What is read afterwards is read from the descriptor.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from typing import Final

from air_config.errors import AirError

__all__ = ["Untrusted", "open_trusted", "why_untrusted"]

_LINKS: Final = 40
_LAST: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
#: A folder on the way is passed through and not listed, which may be forbidden.
_ON_THE_WAY: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC


class Untrusted(AirError):
    """Another user could have written what a path names, so no code is loaded from it.

    Make the named part of the path yours (`chown`, `chmod go-w`) if you trust what is in it, or use another folder.
    """

    def __init__(self, path: str, part: str, reason: str) -> None:
        self.path = path
        self.part = part
        self.reason = reason
        place = "" if part == path else f" {part}"
        super().__init__(
            f"{path} is not read, because reading it runs the code in it:{place} {reason}",
            advice=f"if you trust it, make {part} yours (chown) and writable by you alone (chmod go-w)",
        )


def open_trusted(path: str | os.PathLike[str]) -> int:
    """A descriptor to read a regular file from; raises `Untrusted`, or OSError where there is no such file."""
    descriptor = _walked(path)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Untrusted(os.fspath(path), os.fspath(path), "is no regular file")
    return descriptor


def why_untrusted(path: str | os.PathLike[str]) -> Untrusted | None:
    """What speaks against a file or folder; None where nothing does. Raises OSError where it does not exist."""
    try:
        os.close(_walked(path))
    except Untrusted as refusal:
        return refusal
    return None


def _walked(path: str | os.PathLike[str]) -> int:
    """Opens a path part by part; the descriptor is the last part's, and every part has been judged."""
    whole = os.path.join(os.getcwd(), os.fspath(path))
    waiting = _parts(whole)
    names: list[str] = []
    links = 0
    here = os.open("/", _ON_THE_WAY | os.O_DIRECTORY)
    try:
        _judge(whole, "/", os.fstat(here))
        while waiting:
            name = waiting.pop()
            found = os.stat(name, dir_fd=here, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                links += 1
                _judge(whole, "/" + "/".join([*names, name]), found)
                if links > _LINKS:
                    raise Untrusted(whole, whole, "has too many symbolic links")
                target = os.readlink(name, dir_fd=here)
                waiting += _parts(target)
                if not target.startswith("/"):
                    continue
                name = "/"
            following = os.open(name, _ON_THE_WAY if waiting else _LAST, dir_fd=here)
            os.close(here)
            here = following
            names = _moved(names, name)
            _judge(whole, "/" + "/".join(names), os.fstat(here))
    except BaseException:
        os.close(here)
        raise
    return here


def _parts(path: str) -> list[str]:
    """The names of a path, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _moved(names: list[str], name: str) -> list[str]:
    if name == "/":
        return []
    return names[:-1] if name == ".." else [*names, name]


def _judge(whole: str, part: str, found: os.stat_result) -> None:
    reason = _reason(found)
    if reason is not None:
        raise Untrusted(whole, part, reason)


def _reason(found: os.stat_result) -> str | None:
    if found.st_uid not in (0, os.geteuid()):
        return f"belongs to another user ({_user(found.st_uid)})"
    if stat.S_ISLNK(found.st_mode):  # the mode of a link means nothing
        return None
    sticky = stat.S_ISDIR(found.st_mode) and bool(found.st_mode & stat.S_ISVTX)
    others = bool(found.st_mode & stat.S_IWOTH)
    group = bool(found.st_mode & stat.S_IWGRP) and not _is_private(found.st_gid)
    return "others may write to it" if (others or group) and not sticky else None


def _is_private(group: int) -> bool:
    """Whether a group is the one that a user has alone: the user's first group, of the same name, without others."""
    try:
        user, known = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and known.gr_name == user.pw_name and set(known.gr_mem) <= {user.pw_name}


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
