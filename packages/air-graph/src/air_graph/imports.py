"""`found_by_others`: the spec of a module from the finders after one's own, so that several can observe an import."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["found_by_others"]


def found_by_others(
    finder: MetaPathFinder, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
) -> ModuleSpec | None:
    """What the import system would find without `finder` and those before it."""
    for other in sys.meta_path[sys.meta_path.index(finder) + 1 :]:
        spec = other.find_spec(fullname, path, target)
        if spec is not None:
            return spec
    return None
