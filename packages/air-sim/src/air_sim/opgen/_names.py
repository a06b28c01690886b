"""Lists the aclnn functions that the libraries of torch_npu name, and decides which of them are exported.

Every name is exported, implemented or not: where a function is not found, torch_npu silently takes another way (an
older operator of the aclop kind), while a function that fails gives its name.  The exceptions are the newer versions
that torch_npu probes for and can replace by an older version of the same function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from pathlib import Path
from typing import Final

NOT_FUNCTIONS: Final = frozenset({"LogH", "NonL", "UniH", "NotFound", "NotFoundV2"})
"""Words in the libraries that only look like names of functions."""

NOT_CALLED_IN_TWO_STEPS: Final = frozenset(
    {
        "SetPytorchRandom",
        "ReselectStaticKernel",
        "ReselectStaticKernelWithPath",
        "NpuFormatCastCalculateSizeAndFormat",
    }
)
"""Functions without a GetWorkspaceSize: probed for, and left alone when they are absent."""

_LARGEST: Final = "GetMaxWorkspaceSize"
_NAME: Final = re.compile(rb"\x00(aclnn[A-Z][A-Za-z0-9_]*)\x00")
_PROBED: Final = re.compile(rb'check_aclnn_kernel_available\("aclnn(\w+)"\)')
_DEFINED: Final = re.compile(r'^\s*(?:\{)?"([A-Z]\w+)(?:\(|" [A-Z_]+\b)', re.M)
_MACROS: Final = re.compile(r"\b(UNARY|LISTS|SCALARS|POINTWISE)\(([A-Z]\w*), ")
_MACRO_SUFFIXES: Final = {
    "UNARY": ("",),
    "LISTS": ("List",),
    "SCALARS": ("Scalar", "ScalarV2", "ScalarList"),
    "POINTWISE": ("Scalar", "ScalarV2", "ScalarList"),
}


def _named(libraries: Iterable[Path]) -> set[str]:
    found: set[str] = set()
    for library in libraries:
        data = library.read_bytes().replace(b"\x00", b"\x00\x00")
        found.update(match.decode().removeprefix("aclnn") for match in _NAME.findall(data))
    return found


def named_by(libraries: Iterable[Path]) -> set[str]:
    """The names (without prefix) that appear as strings of their own in the libraries."""
    names = {name.removesuffix("GetWorkspaceSize").removesuffix(_LARGEST) for name in _named(libraries)}
    return names - NOT_FUNCTIONS - NOT_CALLED_IN_TWO_STEPS


def largest_workspace_of(libraries: Iterable[Path]) -> set[str]:
    """The functions that are also asked for their largest workspace, before their arguments are updated in a graph."""
    return {name.removesuffix(_LARGEST) for name in _named(libraries) if name.endswith(_LARGEST)}


def probed_by(sources: Iterable[Path]) -> set[str]:
    """The names that op-plugin asks for before it chooses between versions."""
    found: set[str] = set()
    for source in sources:
        found.update(name.decode() for name in _PROBED.findall(source.read_bytes()))
    return found


def defined_in(sources: Iterable[Path]) -> set[str]:
    """The names that rows and kernels define."""
    found: set[str] = set()
    for source in sources:
        text = source.read_text()
        found.update(_DEFINED.findall(text))
        for macro, name in _MACROS.findall(text):
            found.update(f"Foreach{name}{suffix}" for suffix in _MACRO_SUFFIXES[macro])
    return found


def exported(named: Set[str], probed: Set[str], defined: Set[str]) -> list[str]:
    """The names to export, in order: all that are named but the probed ones that nobody defines."""
    return sorted((named | defined) - (probed - defined))
