"""The files of `cache_compile`: one zip archive for each traced graph, readable without running what is in it.

compiled_module, compiled_module.1, ...
    about.json     versions, function, options
    graph.txt      the graph of ATen operators
    function       what torch.compiler.load_compiled_function reads; code runs when it is read
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib
import inspect
import io
import json
import logging
import os
import platform
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final

import torch

from air_backend._version import __version__
from air_backend.errors import CannotSave, NotACache, UnsafeCache
from air_config import CompilerConfig

log = logging.getLogger(__name__)

NAME: Final = "compiled_module"
ABOUT, GRAPH, FUNCTION = "about.json", "graph.txt", "function"
GLOBALS: Final = "globals"
MODULES: Final = "modules"
_IMPORT: Final = "__import_"
_PLAIN: Final = (bool, int, float, str, bytes, type(None))
OTHERS_MAY_WRITE: Final = 0o022


@dataclass(frozen=True)
class Key:
    """What a file is for: a file with another key is not read."""

    function: str
    dynamic: bool
    config: Mapping[str, Any]
    versions: Mapping[str, str]
    captured: Mapping[str, str]
    """What the function closes over, and its default arguments."""

    @classmethod
    def of(cls, function: Callable[..., Any], owner: object, config: CompilerConfig, dynamic: bool) -> Key:
        """The key of a function, or of a method and what it belongs to, in this process."""
        holder = type(owner).__qualname__ + "." if owner is not None else ""
        name = f"{function.__module__}.{holder}{function.__name__}"
        options = json.loads(config.to_json(only_set=True))
        return cls(name, dynamic, options, _versions(), _captured(function))

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(vars(self), sort_keys=True).encode()).hexdigest()

    @property
    def name(self) -> str:
        """The name of the folder."""
        last = ".".join(self.function.split(".")[-2:])
        return f"{last}_{'dynamic' if self.dynamic else 'static'}_{self.digest[:16]}"


def _versions() -> dict[str, str]:
    found = {"air-backend": __version__, "python": platform.python_version(), "torch": torch.__version__}
    with contextlib.suppress(metadata.PackageNotFoundError):
        found["torch_npu"] = metadata.version("torch_npu")
    return found


def _captured(function: Any) -> dict[str, str]:
    """Values that torch writes into the file and does not compare; one that has no name in a key is refused."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    named = [(name, cell.cell_contents) for name, cell in cells]
    named += [(f"default {index}", value) for index, value in enumerate(function.__defaults__ or ())]
    named += [(f"default {name}", value) for name, value in (function.__kwdefaults__ or {}).items()]
    found = {}
    for name, value in named:
        if isinstance(value, _PLAIN):
            found[name] = repr(value)
        elif isinstance(value, (type, FunctionType, ModuleType)):
            found[name] = (
                f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
            )
        else:
            raise CannotSave(
                f"{function.__name__} holds {name!r}, a {type(value).__name__}; give it as an argument"
            )
    return found


@dataclass(frozen=True)
class Store:
    """The folder of one function in one process of a job."""

    folder: Path
    key: Key

    def read(self, func: Callable[..., Any]) -> list[Any]:
        """The graphs that hold for the source code as it is; one that cannot be read is left out, with the reason."""
        graphs = []
        for path in self._files():
            _refuse_others(path)
            try:
                graph = _loaded(path, self.key, func)
            except Exception as error:  # whatever torch, pickle or zipfile raise for a file that does not fit
                log.warning("%s is not used: %s", path, error)
                continue
            graphs.append(graph)
        log.info("%s: %d graphs from %s", self.key.function, len(graphs), self.folder)
        return graphs

    def write(self, graph: Any, values: Mapping[str, str]) -> Path:
        """Writes a graph, and the global values it was traced with, beside those that are there."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_others(self.folder)
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(" ", "seconds")
        about = {**vars(self.key), "written": now, GLOBALS: dict(values), MODULES: _modules(graph)}
        with (
            tempfile.NamedTemporaryFile(dir=self.folder, prefix=".", delete=False) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            archive.writestr(ABOUT, json.dumps(about, indent=2))
            archive.writestr(GRAPH, graph._artifacts.compiled_fn.text())
            archive.writestr(FUNCTION, type(graph).serialize(graph).serialized_data)
        return self._publish(Path(file.name))

    def _publish(self, written: Path) -> Path:
        """Gives a file the first free name; two processes that write at once get two names."""
        number = 0
        while True:
            path = self.folder / (f"{NAME}.{number}" if number else NAME)
            try:
                os.link(written, path)
            except FileExistsError:
                number += 1
                continue
            written.unlink()
            return path

    def _files(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        _refuse_others(self.folder)
        return sorted(self.folder.glob(f"{NAME}*"), key=lambda path: (len(path.name), path.name))


def _loaded(path: Path, key: Key, func: Callable[..., Any]) -> Any:
    with zipfile.ZipFile(path) as archive:
        about = json.loads(archive.read(ABOUT))
        ours = vars(key)
        if different := sorted(name for name in ours if about.get(name) != ours[name]):
            raise NotACache(str(path), f"it was written for another {', '.join(different)}")
        values = about[GLOBALS]
        now = plain_values(values, func)
        if changed := sorted(name for name, value in values.items() if now.get(name) != value):
            raise NotACache(str(path), f"{changed[0]} is not {values[changed[0]]} any more")
        data = io.BytesIO(archive.read(FUNCTION))
    modules = {name: importlib.import_module(module) for name, module in about[MODULES].items()}
    scope = {**modules, **_function(func).__globals__}
    graph = torch.compiler.load_compiled_function(data, f_globals=scope)
    for source in graph.source_info().inlined_sources:  # type: ignore[attr-defined]
        if _checksum(source) != source.checksum:
            raise NotACache(str(path), f"the source code of {source.module} has changed")
    return graph


def _modules(graph: Any) -> dict[str, str]:
    """The modules that Dynamo put among the globals of the function, under names that only this process knows."""
    scope = graph.fn.__globals__
    found = ((name, scope.get(name)) for name in graph._artifacts.runtime_env.external_refs)
    return {
        name: value.__name__
        for name, value in found
        if isinstance(value, ModuleType) and name.startswith("___")
    }


def _checksum(source: Any) -> str:
    """Of the lines of a module that were traced, as they are now."""
    lines = inspect.getsourcelines(importlib.import_module(source.module))[0]
    text = "".join(lines[source.firstlineno - 1 : source.lastlineno - 1])
    return hashlib.sha256(text.encode()).hexdigest()


class _Globals(dict[str, Any]):
    """What Dynamo calls `G`: the globals of the function, and modules under names of Dynamo."""

    def __missing__(self, name: str) -> Any:
        if not name.startswith(_IMPORT):
            raise KeyError(name)
        return importlib.import_module(name.removeprefix(_IMPORT).replace("_dot_", "."))


def plain_values(names: Iterable[str], func: Callable[..., Any]) -> dict[str, str]:
    """The numbers and strings among global values, which Dynamo names by expressions, as they are now."""
    scope = {"G": _Globals(_function(func).__globals__)}
    found = {}
    for name in names:
        try:
            value = eval(name, scope)  # an expression of Dynamo's, from a file that only this user writes
        except Exception as error:  # whatever the attributes and keys in it raise
            log.debug("%s cannot be looked up: %s", name, error)
            continue
        if isinstance(value, _PLAIN):
            found[name] = repr(value)
    return found


def _function(func: Callable[..., Any]) -> Any:
    return getattr(func, "__func__", func)


def _refuse_others(path: Path) -> None:
    """Reading a file runs code: it has to be this user's, and nobody else may write it."""
    status = path.stat()
    if status.st_uid != os.getuid():
        raise UnsafeCache(str(path), "it belongs to another user")
    if status.st_mode & OTHERS_MAY_WRITE:
        raise UnsafeCache(str(path), "others may write to it")


def readable_cache(
    cache_bin: str | os.PathLike[str], print_output: bool = True, file: str | os.PathLike[str] | None = None
) -> str:
    """What a file of `cache_compile` holds, as text; nothing of it is run. `file` is written as well, if given."""
    path = Path(cache_bin)
    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read(ABOUT))
            graph = archive.read(GRAPH).decode()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise NotACache(str(path), f"{type(error).__name__}: {error}") from error
    lines = [f"{name}: {json.dumps(value)}" for name, value in about.items()]
    text = "\n".join([*lines, "", graph])
    if file is not None:
        Path(file).write_text(text)
    if print_output:
        sys.stdout.write(text + "\n")
    return text
