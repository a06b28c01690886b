"""Makes `import torchair` and `import npugraph_ex` mean AIR, for a program that was written for them.

    air run script.py                            or, in a program that cannot be started so, as early as can be:
    air_backend.install_as_torchair()

torch_npu puts packages of its own under these names: some when it is imported, some when Dynamo is, some as attributes
that are set at their first use. `install_as_torchair()` has all that happen, puts AIR there instead, and answers every
later import of a name below. The backends `npu` and `npugraph_ex` of `torch.compile` become AIR's. A module that AIR
does not have is an error that says so, not a mixture of the two.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

from air_config.published import document
from air_graph.imports import found_by_others

OURS: Final[dict[str, str]] = {
    "torchair": "air_backend",
    "npugraph_ex": "air_backend.npugraph_ex",
    "torch_npu.dynamo.torchair": "air_backend",
    "torch_npu.dynamo.npugraph_ex": "air_backend.npugraph_ex",
    "torch_npu.npu.npugraph_ex": "air_backend.npugraph_ex",
    "torch.npu.npugraph_ex": "air_backend.npugraph_ex",
}
"""The foreign names, and the packages of ours that stand for them."""

#: What lies elsewhere here than its name says: below each name of torchair.
MOVED: Final = {"ge_concrete_graph": "_ge_concrete_graph"}

PLUGIN: Final = "torch_npu"
#: Names of backends of `torch.compile` -> where ours is.
BACKENDS: Final = {
    "npu": ("air_backend._backend", "air"),
    "npugraph_ex": ("air_backend.npugraph_ex.npu_fx_compiler", "backend"),
}


def ours_for(name: str) -> str | None:
    """The module of ours that stands for a module, whether it exists or not; None for a module of nobody's."""
    for foreign, ours in OURS.items():
        if name == foreign or name.startswith(f"{foreign}."):
            head, _, rest = name.removeprefix(foreign).removeprefix(".").partition(".")
            below = MOVED.get(head, head) if ours == "air_backend" else head
            return ".".join(filter(None, (ours, below, rest)))
    return None


class _Loader(importlib.abc.Loader):
    """Gives the module of ours that stands for a foreign name."""

    def __init__(self, ours: str) -> None:
        self.ours = ours
        self._spec: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.ours)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system had put the foreign name there


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the foreign names and everything below them, and notices when torch_npu is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == PLUGIN:
            spec = found_by_others(self, fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _HookedLoader(spec.loader)
            return spec
        ours = ours_for(fullname)
        if ours is None:
            return None
        if not _exists(ours):
            foreign = next(name for name in OURS if fullname.startswith(f"{name}."))
            raise ModuleNotFoundError(
                f"AIR stands in for {foreign} and has no module {fullname!r}; "
                f"{document('migration')} lists what it has",
                name=fullname,
            )
        return importlib.machinery.ModuleSpec(fullname, _Loader(ours), is_package=True)


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # nor does the package that it would be in
        return False


class _HookedLoader(importlib.abc.Loader):
    """Loads a module as its own loader does; then our names are put in place."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        _give_backends_back()  # it registers its own, and torch takes no name twice
        self._loader.exec_module(module)
        _put_in_place()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


_registered: dict[str, tuple[Callable[..., Any] | None, Any, bool]] = {}
"""The backends that ours took the place of: the function, the entry point, and whether there was one."""


def install_as_torchair() -> None:
    """From now on the foreign names give AIR."""
    importlib.import_module("torch")
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _put_in_place()


def _put_in_place() -> None:
    """Puts AIR under every foreign name whose parent is there; torch_npu has then set all that it sets later."""
    importlib.import_module("torch._dynamo")
    _forget()
    for name in OURS:
        parent = name.rpartition(".")[0]
        if not parent or parent in sys.modules:
            importlib.import_module(name)
    _register_backends()
    importlib.import_module("air_backend._foreign_ops").declare()


def _forget() -> None:
    """Takes the foreign modules away, and what packages hold of them as attributes."""
    for name in [name for name in sys.modules if ours_for(name) is not None]:
        del sys.modules[name]
    for name in OURS:
        parent, _, child = name.rpartition(".")
        if parent in sys.modules:
            vars(sys.modules[parent]).pop(child, None)


def _register_backends() -> None:
    from torch._dynamo.backends import registry

    functions: dict[str, Any] = registry._COMPILER_FNS
    entries: dict[str, Any] = registry._BACKENDS
    for name, (module, attribute) in BACKENDS.items():
        ours = getattr(importlib.import_module(module), attribute)
        if functions.get(name) is ours:
            continue
        _registered.setdefault(name, (functions.get(name), entries.get(name), name in entries))
        functions[name], entries[name] = ours, None


def _give_backends_back() -> None:
    if not _registered:
        return
    from torch._dynamo.backends import registry

    for name, (function, entry, known) in _registered.items():
        registry._COMPILER_FNS.pop(name, None)
        registry._BACKENDS.pop(name, None)
        if function is not None:
            registry._COMPILER_FNS[name] = function
        if known:
            registry._BACKENDS[name] = entry
    _registered.clear()


def uninstall() -> None:
    """Undoes `install_as_torchair`; modules that were imported under the foreign names are forgotten."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    _forget()
    _give_backends_back()


def in_place() -> dict[str, str]:
    """The foreign names that are imported in this process, each with whose it is: "AIR", or the file it is from."""
    found = {}
    for name, ours in OURS.items():
        module = sys.modules.get(name)
        if module is None:
            continue
        where = vars(module).get("__file__") or type(module).__name__
        found[name] = "AIR" if module is sys.modules.get(ours) else str(where)
    return found
