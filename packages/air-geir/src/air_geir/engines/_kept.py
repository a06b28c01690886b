"""Keeps compiled graphs of the Graph Engine in a folder, so that other processes need not compile them again.

    with kept_in("cache/ge"):
        run = air_geir.compile_graph(gm, inputs)      # its first call reads what another process kept, or keeps it

One graph is one folder below it, whose name is derived from everything that the result depends on. The engine reads
and writes the files in it and checks little when it reads, so a note beside the files holds their digests, which are
compared first. A folder that does not match is removed, and the graph is compiled again. Everything in the folder may
be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import torch

from air_config.trust import Untrusted, open_trusted, why_untrusted
from air_geir._version import __version__
from air_geir.engines._protocol import Carrier, EngineOptions
from air_geir.file import to_bytes
from air_geir.ir import Graph

log = logging.getLogger(__name__)

FOLDER_OPTION: Final = "ge.graph_compiler_cache_dir"
KEY_OPTION: Final = "ge.graph_key"
NOTE: Final = "air.json"
FILES_OF_OPTIONS: Final = ("ge.fusionSwitchFile", "aoe_config_file")
"""Options that name a file: what is in it decides, not its name."""
VARIABLES: Final = ("ASCEND_OPP_PATH", "ASCEND_CUSTOM_OPP_PATH", "ASCEND_HOME_PATH")
"""Variables that say which operators there are."""

_asked: Final[ContextVar[tuple[Path | None, Carrier | None]]] = ContextVar(
    "air_geir_kept_in", default=(None, None)
)


@contextlib.contextmanager
def kept_in(folder: str | os.PathLike[str] | None, carrier: Carrier | None = None) -> Iterator[None]:
    """Graphs that are compiled inside are kept below this folder; None keeps nothing.

    `carrier` takes entries to other machines, and brings theirs.
    """
    token = _asked.set((None if folder is None else Path(folder).absolute(), carrier))
    try:
        yield
    finally:
        _asked.reset(token)


def folder_asked() -> Path | None:
    """The folder of the enclosing `kept_in`."""
    return _asked.get()[0]


def as_asked(options: EngineOptions) -> EngineOptions:
    """The options of a graph, with folder and carrier of the enclosing `kept_in`."""
    folder, carrier = _asked.get()
    return replace(options, kept_in=folder, carrier=carrier)


@dataclass
class Entry:
    """The entry of one graph, while it is compiled."""

    options: Mapping[str, str] = field(default_factory=dict)
    """Options for the engine beside those of the graph."""
    state: str = "not asked for"
    """What happened to it, for the statistics of the graph."""


@contextlib.contextmanager
def entry_of(graph: Graph, options: EngineOptions, engine: str) -> Iterator[Entry]:
    """Put around the compilation of a graph: finds its entry, or keeps the files that are written inside."""
    if options.kept_in is None:
        yield Entry()
        return
    if "aoe_mode" in options.graph:
        yield Entry(state="not kept: the result of tuning changes with what the tuner has learnt")
        return
    facts = _facts(graph, options, engine)
    key = name_of(facts)
    place = options.kept_in / key
    try:
        sound = is_sound(place, facts)
        if not sound and options.carrier is not None:
            options.carrier.bring(place)
            sound = is_sound(place, facts)
        writing = place if sound else new_folder(options.kept_in, key)
    except (OSError, Untrusted) as error:
        log.warning("%s is compiled and not kept: %s", graph.name, error)
        yield Entry(state=f"not kept: {error}")
        return
    entry = Entry({FOLDER_OPTION: str(writing), KEY_OPTION: key}, "read" if sound else "written")
    try:
        yield entry
        if not sound:
            entry.state = published(writing, place, facts)
            log.info("%s: what the engine made of it is %s (%s)", graph.name, entry.state, place)
        if options.carrier is not None and entry.state in ("read", "written"):
            options.carrier.take(place)
    except BaseException:
        if sound:
            _discard(place, "the engine did not accept it")
        raise
    finally:
        if not sound:
            shutil.rmtree(writing, ignore_errors=True)


def name_of(facts: Mapping[str, Any]) -> str:
    """The name of the folder for a graph with these facts."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def _facts(graph: Graph, options: EngineOptions, engine: str) -> dict[str, Any]:
    """All that the engine's work on a graph depends on."""
    import torch_npu.npu.utils  # present whenever this engine runs

    name, graph.name = graph.name, "graph"  # names are numbered within a process
    try:
        model = hashlib.sha256(to_bytes(graph)).hexdigest()
    finally:
        graph.name = name
    told = {**options.session, **options.graph}
    files = {key: _digest_of_option(told[key]) for key in FILES_OF_OPTIONS if key in told}
    return {
        "graph": model,
        "options": told | files,
        "engine": engine,
        "chip": torch.get_device_module("npu").get_device_name(),
        "versions": {
            "air-geir": __version__,
            "cann": str(torch_npu.npu.utils.get_cann_version()),
            "torch": str(torch.__version__),
            "torch_npu": metadata.version("torch_npu"),
        },
        "variables": {name: os.environ.get(name, "") for name in VARIABLES},
    }


def _digest_of_option(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        return f"{path}: {error.strerror}"  # the engine will say more


def is_sound(place: Path, facts: Mapping[str, Any]) -> bool:
    """Whether the files of a folder are those written for these facts; a folder of others is removed."""
    try:
        if refusal := why_untrusted(place):
            raise refusal
    except FileNotFoundError:
        return False
    try:
        note = json.loads(read_trusted(place / NOTE))
        if note["facts"] != facts:
            raise ValueError("it was written for another graph")
        for name, digest in note["files"].items():
            if _digest(place / name) != digest:
                raise ValueError(f"{name} was changed after it was written")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        _discard(place, str(error))
        return False
    return True


def read_trusted(path: Path) -> bytes:
    with os.fdopen(open_trusted(path), "rb") as file:
        return file.read()


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with os.fdopen(open_trusted(path), "rb") as file:
        while part := file.read(1 << 20):
            found.update(part)
    return found.hexdigest()


def new_folder(above: Path, key: str) -> Path:
    """A folder of this process alone, which becomes the entry once it is complete."""
    above.mkdir(mode=0o700, parents=True, exist_ok=True)
    if refusal := why_untrusted(above):
        raise refusal
    return Path(tempfile.mkdtemp(dir=above, prefix=f".{key}."))


def published(written: Path, place: Path, facts: Mapping[str, Any]) -> str:
    """Notes what the engine wrote and renames the folder into place; of two processes the first one wins."""
    files = sorted(path for path in written.rglob("*") if path.is_file() and not path.is_symlink())
    if not files:
        return "not kept: the engine wrote nothing"
    try:
        digests = {str(path.relative_to(written)): _digest(path) for path in files}
        text = json.dumps({"facts": facts, "files": digests}, indent=2)
        (written / NOTE).write_text(text, encoding="utf-8")
        written.rename(place)
    except (OSError, Untrusted) as error:
        return "kept by another process" if place.exists() else f"not kept: {error}"
    return "written"


def _discard(place: Path, reason: str) -> None:
    """Removes an entry. It is renamed first, so that no process finds half of it."""
    log.warning("%s is not used, and removed: %s; the graph is compiled again", place, reason)
    with contextlib.suppress(OSError):
        aside = Path(tempfile.mkdtemp(dir=place.parent, prefix=".gone."))
        place.rename(aside / "entry")
        shutil.rmtree(aside, ignore_errors=True)
