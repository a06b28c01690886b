"""One test of many addresses.

A captured graph writes and reads the memory it saw.  `p.data = other`, `set_` and a swapped parameter all
move a tensor without a trace in its Python identity, so the test is on addresses: all of them, every call.
For 288 parameters on one machine:

    a loop over `data_ptr()`                                          33 us
    the C++ test inside accelerator builds of torch and torch_npu     17 us
    twenty lines of C++ over torch's own C entry for generated code    3 us

The last is compiled in a fraction of a second the first time a process needs it, kept in torch's cache
folder, and replaced by the next one above it where there is no compiler.  `ACLGRAPH_NATIVE_ADDRESSES=0` switches
it off.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
from torch import Tensor
from torch._C._dynamo import guards
from torch._inductor.runtime.cache_dir_utils import cache_dir

log = logging.getLogger(__name__)

#: Whether the bound inputs of a call are where they were.
AddressTest = Callable[[list[Any]], bool]
#: Makes the test for these indices of the arguments and these addresses.
AddressTests = Callable[[Sequence[int], Sequence[int]], AddressTest]

SOURCE: Final = Path(__file__).with_name("_addresses.cpp")

#: Under this many tensors the loop in Python is as fast as any other.
_FEW: Final = 6


class _Expected(ctypes.Structure):
    _fields_ = (
        ("data_ptr", ctypes.c_void_p),
        ("count", ctypes.c_long),
        ("indices", ctypes.POINTER(ctypes.c_long)),
        ("pointers", ctypes.POINTER(ctypes.c_void_p)),
    )


def mapped(indices: Sequence[int], pointers: Sequence[int]) -> AddressTest:
    """The portable test: one `data_ptr()` per tensor."""
    places, expected = tuple(indices), list(pointers)
    data_ptr = Tensor.data_ptr

    def same(args: list[Any]) -> bool:
        return [data_ptr(args[i]) for i in places] == expected

    return same


def of_extension(*modules: ModuleType) -> AddressTests | None:
    """The C++ test of the first extension module that has one."""
    for module in modules:
        found: Any = getattr(module, "_tensors_data_ptrs_at_indices_equal", None)
        if found is not None:
            return functools.partial(_extension_test, found)
    return None


def _extension_test(found: Any, indices: Sequence[int], pointers: Sequence[int]) -> AddressTest:
    places = list(indices)
    by_place = [0] * (max(places, default=-1) + 1)
    for place, pointer in zip(places, pointers, strict=True):
        by_place[place] = pointer
    return lambda args: bool(found(args, by_place, places))


def compiled() -> AddressTests | None:
    """The compiled test, or None where it cannot be had; compiled once per machine and version."""
    entry: int | None = getattr(guards, "_torchinductor_pyobject_tensor_data_ptr", None)
    library = None if os.environ.get("ACLGRAPH_NATIVE_ADDRESSES") == "0" else _library()
    if library is None or entry is None:
        return None
    function = library.air_same_addresses
    function.argtypes = (ctypes.c_void_p, ctypes.py_object)
    function.restype = ctypes.c_int
    return functools.partial(_compiled_test, function, entry)


def _compiled_test(function: Any, entry: int, indices: Sequence[int], pointers: Sequence[int]) -> AddressTest:
    if len(indices) < _FEW:
        return mapped(indices, pointers)
    count = len(indices)
    places = (ctypes.c_long * count)(*indices)
    addresses = (ctypes.c_void_p * count)(*pointers)
    expected = _Expected(entry, count, places, addresses)
    call = functools.partial(function, ctypes.addressof(expected))
    slow = mapped(indices, pointers)

    def same(args: list[Any]) -> bool:
        found = call(args)
        return found == 1 or (found < 0 and slow(args))

    same.__dict__["keep"] = (expected, places, addresses)
    return same


@functools.cache
def _library() -> ctypes.PyDLL | None:
    compiler = shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")
    source = SOURCE.read_bytes()
    digest = hashlib.sha256(source + torch.__version__.encode()).hexdigest()[:16]
    target = Path(cache_dir()) / "air_aclgraph" / f"addresses_{digest}.so"
    if not target.exists() and (compiler is None or not _build(compiler, target)):
        return None
    try:
        return ctypes.PyDLL(str(target))
    except OSError as error:
        log.warning("%s cannot be loaded (%s): addresses are compared without it", target, error)
        return None


def _build(compiler: str, target: Path) -> bool:
    """Compiles into a file of its own and renames it, so that no process reads half a library."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        command = [compiler, "-O2", "-shared", "-fPIC", "-fvisibility=hidden", str(SOURCE), "-o", str(made)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            log.warning("%s failed: %s", " ".join(command), result.stderr.strip().partition("\n")[0])
            return False
        made.replace(target)
    return True
