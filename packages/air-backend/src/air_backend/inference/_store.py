"""The files of `cache_compile`: one zip archive for each traced graph, readable without running what is in it.

compiled_module, compiled_module.1, ...
    about.json     versions, function, options
    graph.txt      the graph of ATen operators
    function       what torch.compiler.load_compiled_function reads; code runs when it is read
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import importlib
import inspect
import io
import itertools
import json
import logging
import os
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CellType, ModuleType
from typing import Any, BinaryIO, Final

import torch
from torch._guards import TracingContext, tracing

from air_backend.errors import NotACache
from air_backend.inference._classes import Classes, changed
from air_backend.inference._conditions import Conditions, Traced
from air_backend.inference._described import described, is_as, is_hidden
from air_backend.inference._global_conditions import GlobalConditions
from air_backend.inference._globals import lend_globals, use_globals_of
from air_backend.inference._key import Key, cells_of, code_of, hooks_of
from air_backend.inference._marks import Marks, put_back
from air_backend.inference.errors import CacheWarning, UnsafeCache
from air_config.trust import Untrusted, open_trusted, why_untrusted
from air_graph.errors import CannotWrite
from air_graph.files import write_text

log = logging.getLogger(__name__)

NAME: Final = "compiled_module"
WHAT: Final = "a file of cache_compile"
ABOUT, GRAPH, FUNCTION = "about.json", "graph.txt", "function"
GLOBALS: Final = "globals"
HOOKS: Final = "hooks"
HOOKS_ELSEWHERE: Final = "hooks_elsewhere"
CLASSES: Final = "classes"
MARKS: Final = "marks"
MODULES: Final = "modules"
CONDITIONS: Final = "conditions"
REFERENCES: Final = "references"
#: Of what is said of a value in a warning.
LONGEST: Final = 200
_IMPORT: Final = "__import_"
#: Names that Dynamo gives to globals of its own, which another process does not have.
_OF_DYNAMO: Final = ("G['__builtins_dict__", "G['___")
#: What a file system says that has no second names for files.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True)
class Facts:
    """What a trace took in, beside what torch compares itself."""

    globals: Mapping[str, str]
    conditions: Mapping[str, str]
    """Those among arguments and attributes that are asked in each call."""
    references: Mapping[str, str]
    """Those that are reached through a class or a function, asked before the first call."""
    marks: Marks
    hooks: Mapping[str, list[str]]
    hooks_elsewhere: Mapping[str, list[str]]
    """Those of modules that the function finds elsewhere, asked before the first call."""
    classes: Classes

    def by_name(self) -> dict[str, Any]:
        held = (
            (GLOBALS, self.globals),
            (CONDITIONS, self.conditions),
            (REFERENCES, self.references),
            (MARKS, self.marks),
            (HOOKS, self.hooks),
            (HOOKS_ELSEWHERE, self.hooks_elsewhere),
            (CLASSES, self.classes),
        )
        return {name: dict(values) for name, values in held}


@dataclass(frozen=True)
class Store:
    """The folder of one function in one process of a job."""

    folder: Path
    key: Key

    def read(self, func: Callable[..., Any]) -> list[Traced]:
        """The graphs that hold for the source code as it is; one that cannot be read is left out, with the reason."""
        graphs = []
        for path in self._files():
            try:
                with _opened(path) as file:
                    graph = _loaded(file, path, self.key, func)
            except UnsafeCache:
                raise
            except Exception as error:  # whatever torch, pickle or zipfile raise for a file that does not fit
                reason = error.reason if isinstance(error, NotACache) else error
                log.warning("%s is not used: %s", path, reason)
                continue
            graphs.append(graph)
        log.info("%s: %d graphs from %s", self.key.function, len(graphs), self.folder)
        return graphs

    def write(self, graph: Any, facts: Facts, cells: Mapping[str, CellType]) -> Path | None:
        """Writes a graph, with the facts it was traced with, beside those that are there.

        None, and a warning, where the disk is full or the place cannot be used; the graph itself still works.
        """
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(" ", "seconds")
        about = {**vars(self.key), "written": now, **facts.by_name(), MODULES: _modules(graph)}
        contents = {
            ABOUT: json.dumps(about, indent=2),
            GRAPH: graph._artifacts.compiled_fn.text(),
            FUNCTION: type(graph).serialize(graph, cells).serialized_data,
        }
        try:
            return self._written(contents)
        except (OSError, Untrusted) as error:
            reason = error if isinstance(error, Untrusted) else CannotWrite(WHAT, self.folder, error)
            warnings.warn(
                f"{self.key.function} is not kept for other processes: {reason}", CacheWarning, stacklevel=2
            )
            return None

    def _written(self, contents: Mapping[str, str | bytes]) -> Path:
        _make(self.folder)
        if refusal := why_untrusted(self.folder):
            raise refusal
        descriptor, name = tempfile.mkstemp(dir=self.folder, prefix=".")
        try:
            with (
                os.fdopen(descriptor, "wb") as file,
                zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
            ):
                for part, content in contents.items():
                    archive.writestr(part, content)
            return self._publish(Path(name))
        finally:
            with contextlib.suppress(OSError):
                os.unlink(name)

    def _publish(self, written: Path) -> Path:
        """Gives a file the first free name; two processes that write at once get two names."""
        for number in itertools.count():
            path = self.folder / (f"{NAME}.{number}" if number else NAME)
            try:
                os.link(written, path)
            except FileExistsError:
                continue
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                if not _reserved(path):
                    continue
                written.replace(path)
            return path
        raise AssertionError("unreachable")

    def _files(self) -> list[Path]:
        """The files there; none, and a warning, where one cannot look."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            log.warning("%s: nothing is read from %s: %s", self.key.function, self.folder, error.strerror)
            return []
        found = (self.folder / name for name in names if name.startswith(NAME))
        return sorted(found, key=lambda path: (len(path.name), path.name))


def _make(folder: Path) -> None:
    """Makes a folder and those above it, each for this user alone."""
    for part in (*reversed(folder.parents), folder):
        if not part.exists():
            part.mkdir(mode=0o700, exist_ok=True)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def _reserved(path: Path) -> bool:
    """Whether a name was free, and is taken now."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


def _opened(path: Path) -> BinaryIO:
    """The file, if nobody else can have written it; what is read from it is what was looked at."""
    try:
        return os.fdopen(open_trusted(path), "rb")
    except Untrusted as refusal:
        place = "" if refusal.part == refusal.path else f"{refusal.part} "
        raise UnsafeCache(str(path), place + refusal.reason) from refusal


def _loaded(file: BinaryIO, path: Path, key: Key, func: Callable[..., Any]) -> Traced:
    with zipfile.ZipFile(file) as archive:
        about = json.loads(archive.read(ABOUT))
        ours = vars(key)
        if different := sorted(name for name in ours if about.get(name) != ours[name]):
            raise NotACache(str(path), f"it was written for another {', '.join(different)}")
        hooks = hooks_of(func)
        if others := sorted(
            name for name in {*about[HOOKS], *hooks} if about[HOOKS].get(name) != hooks.get(name)
        ):
            raise NotACache(str(path), f"it was traced with other hooks: {', '.join(others)}")
        values = about[GLOBALS]
        now = _values(values, func)
        if others := sorted(n for n, text in values.items() if n not in now or not is_as(now[n], text)):
            raise NotACache(str(path), _another(others[0], values[others[0]]))
        if (another := changed(about[CLASSES])) is not None:
            raise NotACache(str(path), f"class {another} is not what it was")
        data = io.BytesIO(archive.read(FUNCTION))
    modules = {name: importlib.import_module(module) for name, module in about[MODULES].items()}
    scope = {**modules, **_function(func).__globals__}
    with tracing(TracingContext(None)):  # torch's conditions on `torch.cond` can be made nowhere else
        graph = torch.compiler.load_compiled_function(data, f_globals=scope, external_data=cells_of(func))
        use_globals_of(graph, _function(func))
        lend_globals(graph, values, scope_of(func)["G"])
        put_back(graph, about[MARKS])
    for source in graph.source_info().inlined_sources:  # type: ignore[attr-defined]
        if _checksum(source) != source.checksum:
            raise NotACache(str(path), f"the source code of {source.module} has changed")
    if code_of(graph._artifacts.original_code) != code_of(_function(func).__code__):  # type: ignore[attr-defined]
        raise NotACache(str(path), f"it was traced from another function named {key.function}")
    return traced(graph, about[CONDITIONS], about[REFERENCES], about[HOOKS_ELSEWHERE], values, func)


def _another(name: str, text: str) -> str:
    says_it = len(text) <= LONGEST and not is_hidden(text)
    return f"{name} is not {text} any more" if says_it else f"{name} is not what it was"


def traced(
    graph: Any,
    conditions: Mapping[str, str],
    references: Mapping[str, str],
    hooks: Mapping[str, list[str]],
    values: Mapping[str, str],
    func: Callable[..., Any],
) -> Traced:
    """A graph, with what it asks of arguments and of globals."""
    function, scope = _function(func), scope_of(func)
    return Traced(
        graph,
        Conditions(conditions, function, scope, references, hooks),
        GlobalConditions(values, scope, function.__globals__),
    )


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
    text = "".join(_lines(source))
    return hashlib.sha256(text.encode()).hexdigest()


def _lines(source: Any) -> list[str]:
    lines = inspect.getsourcelines(importlib.import_module(source.module))[0]
    return lines[source.firstlineno - 1 : source.lastlineno - 1]


def sources_of(graph: Any) -> list[str]:
    """The functions of the program that were traced, each as its text."""
    return ["".join(_lines(source)) for source in graph.source_info().inlined_sources]


class _Globals:
    """What Dynamo calls `G`: the globals of the function, and modules under names of Dynamo."""

    def __init__(self, scope: Mapping[str, Any]) -> None:
        self._scope = scope

    def __getitem__(self, name: str) -> Any:
        if name in self._scope:
            return self._scope[name]
        if not name.startswith(_IMPORT):
            return sys.modules[name]  # as `torch`, which Dynamo puts there under its own name
        return importlib.import_module(name.removeprefix(_IMPORT).replace("_dot_", "."))


def global_values(
    names: Iterable[str], contents: Collection[str], func: Callable[..., Any]
) -> dict[str, str]:
    """What global values are, by the expressions that Dynamo names them by; of some their contents as well."""
    values = _values(names, func).items()
    return {name: described(value, contents=name in contents) for name, value in values}


def _values(names: Iterable[str], func: Callable[..., Any]) -> dict[str, Any]:
    scope = scope_of(func)
    found = {}
    for name in names:
        if name.startswith(_OF_DYNAMO):
            continue
        try:
            # an expression of Dynamo's, from a file that only this user writes
            found[name] = eval(name, scope)
        except Exception as error:  # whatever the attributes and keys in it raise
            log.debug("%s cannot be looked up: %s", name, error)
            continue
    return found


def scope_of(func: Callable[..., Any]) -> dict[str, Any]:
    """What the expressions of global values are looked up in."""
    return {"G": _Globals(_function(func).__globals__)}


def _function(func: Callable[..., Any]) -> Any:
    return getattr(func, "__func__", func)


def readable_cache(
    cache_bin: str | os.PathLike[str], print_output: bool = True, file: str | os.PathLike[str] | None = None
) -> str:
    """What a file of `cache_compile` holds, as text; nothing of it is run. `file` is written as well, if given."""
    path = Path(cache_bin)
    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read(ABOUT))
            graph = archive.read(GRAPH).decode()
    except Exception as error:  # whatever zipfile, zlib and json raise for a damaged file
        raise NotACache(str(path), f"{type(error).__name__}: {error}") from error
    lines = [f"{name}: {json.dumps(value)}" for name, value in about.items()]
    text = "\n".join([*lines, "", graph])
    if file is not None:
        write_text(file, text, "the text of the file")
    if print_output:
        sys.stdout.write(text + "\n")
    return text
