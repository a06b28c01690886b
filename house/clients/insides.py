"""Every other inside of TorchAir that a test may name: a module or an object that can be imported, and not used.

A test module imports more than each of its tests needs. What AIR does not have below a private name is given as an
object that says so when it is called, `PrivateName`; what a test puts in its place is noted in `replaced`, because a
test that passes by looking at its own replacement, which nothing calls, shows nothing. A public name that is missing
stays an error.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

replaced: Final[set[str]] = set()
"""Names that were given something else, and that nothing of AIR calls."""

#: Modules that say nothing of it in their name, and are documented nowhere.
PRIVATE_MODULES: Final = frozenset(
    {
        "npu_fx_compiler",
        "npu_export",
        "npugraphex_config",
        "ge_graph_ascend",
        "patterns",
        "fx_dumper",
        "fx_summary",
        "ge_concrete_graph",
    }
)
#: Their tests count calls of it in a way that cannot fail.
UNJUDGED: Final = frozenset({"static_compile"})
PACKAGES: Final = {"torchair": "air_backend", "npugraph_ex": "air_backend.npugraph_ex"}


class PrivateName(AttributeError):
    """A test has used what only TorchAir has."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is an inside of TorchAir that AIR does not have")


class Watched(type):
    """A class that stands for a missing name: its attributes are such classes, and to call it is an error."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name != "__call__":
            raise AttributeError(name)
        found = missing(f"{cls.__qualname__}.{name}")
        type.__setattr__(cls, name, found)
        return found

    def __setattr__(cls, name: str, value: Any) -> None:
        if vars(cls).get(name) is not value:
            replaced.add(f"{cls.__qualname__}.{name}")
        super().__setattr__(name, value)

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise PrivateName(cls.__qualname__)


def missing(name: str) -> Any:
    """What stands for a name."""
    found = Watched(
        name.rpartition(".")[2], (), {"__qualname__": name, "__module__": "house.clients.insides"}
    )
    type.__setattr__(found, "__call__", Watched("__call__", (), {"__qualname__": f"{name}.__call__"}))
    return found


class Inside(ModuleType):
    """A module that AIR does not have."""

    wired: frozenset[str] = frozenset()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = missing(f"{self.__name__}.{name}")
        vars(self)[name] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        before = vars(self).get(name)
        changed = before is not None and before is not value and not isinstance(value, ModuleType)
        if changed and name not in self.wired | UNJUDGED:
            replaced.add(f"{self.__name__}.{name}")
        super().__setattr__(name, value)

    def __call__(self, *_: Any, **__: Any) -> Any:  # a function, after all
        raise PrivateName(self.__name__)


def is_private(name: str) -> bool:
    """Whether a module or a name in it is one of the insides."""
    parts = name.split(".")[1:]
    return any(part.startswith("_") or part in PRIVATE_MODULES for part in parts)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules below private names that AIR does not have."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        alias: Any = importlib.import_module("air_backend._alias")
        ours = alias.ours_for(fullname)
        if ours is None or not is_private(fullname) or alias._exists(ours):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return Inside(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


def _fallback(module: ModuleType, foreign: str) -> Callable[[str], Any]:
    """`__getattr__` for a module that AIR has: private names that are missing there."""
    before = vars(module).get("__getattr__")

    def look_up(name: str) -> Any:
        if before is not None:
            try:
                return before(name)
            except AttributeError:
                pass
        if name.startswith("__") or not is_private(f"{foreign}.{name}"):
            raise AttributeError(f"module {foreign!r} has no attribute {name!r}")
        if name.lstrip("_").islower():
            return importlib.import_module(f"{foreign}.{name}")
        found = vars(module)[name] = missing(f"{foreign}.{name}")
        return found

    return look_up


def install(modules: Sequence[str]) -> None:
    """Puts the finder in place, and gives the modules of AIR that are named their private names."""
    sys.meta_path.insert(0, Finder())
    for foreign in modules:
        module = importlib.import_module(foreign)
        vars(module)["__getattr__"] = _fallback(module, foreign)
