"""Declares the operators in namespace `npu`, and withdraws them.

torch_npu declares its operators in C++ and aborts the process when one exists already. So the declarations
step aside by themselves when torch_npu is imported after them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

import torch

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._table import operators
from air_fxpasses.npu_ops._functionalize import functionalized
from air_graph import find_operator
from air_graph.imports import found_by_others

log = logging.getLogger(__name__)

_NAMESPACE: Final = "npu"


class _WithdrawOnImport(MetaPathFinder):
    """Withdraws the declarations when torch_npu is imported; only looking for it changes nothing."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torch_npu":
            return None
        spec = found_by_others(self, fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def run_after_withdrawing(module: ModuleType) -> None:
            withdraw()
            run(module)

        spec.loader.exec_module = run_after_withdrawing  # type: ignore[method-assign]  # of this one loader
        return spec


_library: torch.library.Library | None = None
_declared: tuple[str, ...] = ()
_withdraw_on_import: Final = _WithdrawOnImport()


def declared() -> tuple[str, ...]:
    """The names of the operators that this process has from here and not from torch_npu."""
    return _declared


def declare() -> tuple[str, ...]:
    """Declares every operator of the table that does not exist yet, and says which; none with torch_npu."""
    global _library, _declared
    if "torch_npu" in sys.modules or _library is not None:
        return ()
    absent = tuple(op for op in operators() if find_operator(f"{_NAMESPACE}::{op.name}") is None)
    library = torch.library.Library(_NAMESPACE, "FRAGMENT")
    for op in absent:
        _declare_one(library, op)
    _library, _declared = library, tuple(op.name for op in absent)
    sys.meta_path.insert(0, _withdraw_on_import)
    log.debug("%s operators of namespace %s declared", len(absent), _NAMESPACE)
    return _declared


def withdraw() -> None:
    """Takes the declarations back; graphs that contain such an operator cannot be run any more."""
    global _library, _declared
    if _library is None:
        return
    sys.meta_path.remove(_withdraw_on_import)
    _library._destroy()
    _library, _declared = None, ()


def _declare_one(library: torch.library.Library, op: NpuOp) -> None:
    library.define(op.schema.removeprefix(f"{_NAMESPACE}::"))
    library.impl(op.name, op.reference, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{_NAMESPACE}::{op.name}", op.fake, lib=library)
    if op.functional is not None:
        library.impl(op.name, functionalized(op), "Functionalize")
