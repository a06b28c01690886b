"""A kept entry of one graph as bytes, for the cache folder of another machine.

    data = packed(folder / key)         # here
    unpacked(data, folder)              # there: the engine finds it where its own would lie

Only what the note names is written, and only when every file has the noted digest; damaged bytes leave nothing behind.
The name of an entry says what it is valid for: it is derived from everything that the engine's work depends on.
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

from air_geir.engines._kept import NOTE, is_sound, name_of, new_folder, published, read_trusted

log = logging.getLogger(__name__)

_NO_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""A fixed time in the archive: the same files give the same bytes."""


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
    """The path of the entry in the folder; None, with a warning, when the bytes cannot be used."""
    try:
        facts, files = _looked_through(data)
        place = folder / name_of(facts)
        return place if is_sound(place, facts) else _written(files, facts, place)
    except Exception as error:  # whatever the system, zipfile, zlib and json raise for damaged bytes
        log.warning("the entry of another machine is not taken over into %s: %s", folder, error)
        return None


def _looked_through(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The facts of an entry and its files, whose digests match the note."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        note = json.loads(archive.read(NOTE))
        files = {name: archive.read(name) for name in note["files"]}
    for name, content in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or path.name == NOTE:
            raise ValueError(f"{name!r} is not a valid file name in an entry")
        if hashlib.sha256(content).hexdigest() != note["files"][name]:
            raise ValueError(f"{name} differs from what was noted")
    facts = note["facts"]
    if not isinstance(facts, dict) or not files:
        raise ValueError("the note does not say which graph the files were made from")
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
