"""Imports: modules that a command line names, and finders that observe an import beside others."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from air_graph.errors import NoSuchModule

__all__ = ["found_by_others", "module_named"]


def found_by_others(
    finder: MetaPathFinder, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
) -> ModuleSpec | None:
    """What the import system would find without `finder` and those before it."""
    for other in sys.meta_path[sys.meta_path.index(finder) + 1 :]:
        spec = other.find_spec(fullname, path, target)
        if spec is not None:
            return spec
    return None


def module_named(name: str) -> ModuleType:
    """The module of a file (`folder/model.py`) or of a dotted name.

    It finds its neighbours: the folder of the file, or else the current one, comes first on `sys.path`.
    """
    path = Path(name)
    sys.path.insert(0, str(path.resolve().parent if path.suffix == ".py" else Path.cwd()))
    if path.suffix != ".py":
        return _imported(name)
    if not path.is_file():
        raise NoSuchModule(f"there is no file {name}", advice="give the path of a Python file")
    there = sys.modules.get(path.stem)
    if there is not None and getattr(there, "__file__", None) == str(path.resolve()):
        return there
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _imported(name: str) -> ModuleType:
    if name.startswith("."):
        raise NoSuchModule(
            f"{name!r} is relative to a package", advice="write the whole name of the module, or its file"
        )
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # something that the module itself imports
        what = f"there is no module {error.name!r} here or on sys.path"
        raise NoSuchModule(what, advice=f"a file: {name}.py") from None
