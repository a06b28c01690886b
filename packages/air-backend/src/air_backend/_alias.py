"""Makes `import torchair` mean AIR, for a script that was written for TorchAir.

`import torch` imports torch_npu, which puts its own torchair into `sys.modules` (that of torch 2.11 over whatever is
there). `install()` waits for that, takes it away, and answers every later `import torchair` and `import torchair.x.y`
with `air_backend` and `air_backend.x.y`. A name AIR does not have is an error that says so, not a mixture of the two.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Final

FOREIGN: Final = "torchair"
OURS: Final = "air_backend"


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
    """Finds `torchair` and everything below it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        head, _, rest = fullname.partition(".")
        if head != FOREIGN:
            return None
        ours = f"{OURS}.{rest}" if rest else OURS
        if importlib.util.find_spec(ours) is None:
            raise ModuleNotFoundError(
                f"AIR stands in for torchair and has no module {fullname!r}; "
                f"docs/migration.md lists what it has",
                name=fullname,
            )
        return importlib.machinery.ModuleSpec(fullname, _Loader(ours), is_package=True)


def install() -> None:
    """From now on `import torchair` gives AIR."""
    importlib.import_module("torch")
    for name in [name for name in sys.modules if name == FOREIGN or name.startswith(f"{FOREIGN}.")]:
        del sys.modules[name]
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    importlib.import_module(FOREIGN)  # torch_npu leaves a name alone that is taken when it is imported


def uninstall() -> None:
    """Undoes `install`; modules that were imported under the foreign name are forgotten."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    for name in [name for name in sys.modules if name == FOREIGN or name.startswith(f"{FOREIGN}.")]:
        del sys.modules[name]
