"""What is kept of one graph as bytes, for the folder of another machine.

    data = packed(folder / key)         # here
    unpacked(data, folder)              # there: the engine finds it where its own would lie

Bytes that are no whole entry leave nothing behind: what the note names is all that is written, and only where each file
is the one that was noted.  Whether the entry holds for that machine its name says: there the graph is looked up by all
that the engine's work depends on.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from air_config.trust import Untrusted
from air_geir.engines._kept import NOTE, is_sound, name_of, new_folder, published, read_trusted

log = logging.getLogger(__name__)

_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The same files are the same bytes, whenever they are packed."""


def packed(place: Path) -> bytes:
    """The files of an entry with their note, in one archive."""
    note = read_trusted(place / NOTE)
    names = [NOTE, *sorted(json.loads(note)["files"])]
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name, _NO_TIME), read_trusted(place / name))
    return target.getvalue()


def unpacked(data: bytes, folder: Path) -> Path | None:
    """Where the entry lies below the folder; None, with a warning, where it cannot be taken."""
    try:
        facts, files = _looked_through(data)
        place = folder / name_of(facts)
        return place if is_sound(place, facts) else _written(files, facts, place)
    except (OSError, Untrusted, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        log.warning("what another machine kept of a graph is not taken over into %s: %s", folder, error)
        return None


def _looked_through(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The facts of an entry and its files, each of which is what the note says of it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        note = json.loads(archive.read(NOTE))
        files = {name: archive.read(name) for name in note["files"]}
    for name, content in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or path.name == NOTE:
            raise ValueError(f"{name!r} is no name of a file in an entry")
        if hashlib.sha256(content).hexdigest() != note["files"][name]:
            raise ValueError(f"{name} is not what was noted")
    facts = note["facts"]
    if not isinstance(facts, dict) or not files:
        raise ValueError("the note says of no graph what was made of it")
    return facts, files


def _written(files: Mapping[str, bytes], facts: Mapping[str, Any], place: Path) -> Path:
    writing = new_folder(place.parent, place.name)
    try:
        for name, content in files.items():
            path = writing / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_bytes(content)
        state = published(writing, place, facts)
        if not place.exists():
            raise OSError(state)
        return place
    finally:
        shutil.rmtree(writing, ignore_errors=True)
