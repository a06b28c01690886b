"""One test of many addresses.

A captured graph writes and reads the memory it saw.  `p.data = other`, `set_` and a swapped parameter all
move a tensor without a trace in its Python identity, so the test is on addresses: all of them, every call.
For 288 parameters on one machine:

    a loop over `data_ptr()`                                          33 us
    the C++ test inside accelerator builds of torch and torch_npu     17 us
    a builtin in C++ over torch's own C entry for generated code       3 us

With the tensors out of the processor's caches, as Dynamo's guards leave them, the last takes 25 us; it took
50 before it asked for the storages in advance.  It is compiled in a fraction of a second the first time a
process needs it, kept in torch's cache folder, and replaced by the next one above it where there is no
compiler.  `ACLGRAPH_NATIVE_ADDRESSES=0` switches it off.

A device replays addresses.  The host replays calls with the tensors of the capture, and those follow their storages:
one that was emptied (FSDP does so after each use) has no memory, or other memory, when a call brings another
tensor at the old address.  Its tests are `followed`: they ask where the tensors of the capture are as well.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

import torch
from torch import Tensor

from air_aclgraph import native
from air_config import variables
from air_graph import storage_of

#: Whether the bound inputs of a call are where they were; called with all arguments of the call.
AddressTest = Callable[..., bool]


AddressTests = Callable[[Sequence[int], Sequence[Tensor]], AddressTest]
"""Makes the test that the arguments of a call at these indices have the addresses of these tensors."""

#: Under this many tensors the loop in Python is as fast as any other.
_FEW: Final = 6


def mapped(indices: Sequence[int], tensors: Sequence[Tensor]) -> AddressTest:
    """The portable test: one `data_ptr()` per tensor."""
    places, expected = tuple(indices), [tensor.data_ptr() for tensor in tensors]
    data_ptr = Tensor.data_ptr

    def same(*args: Any) -> bool:
        return [data_ptr(args[i]) for i in places] == expected

    return same


def followed(tests: AddressTests) -> AddressTests:
    """Those tests, and that the tensors of the capture are where they were too."""

    def make(indices: Sequence[int], tensors: Sequence[Tensor]) -> AddressTest:
        held = tuple(tensors)
        given, own = tests(indices, held), tests(range(len(held)), held)
        return lambda *args: given(*args) and own(*held)

    return make


def of_extension(*modules: ModuleType) -> AddressTests | None:
    """The C++ test of the first extension module that has one."""
    for module in modules:
        found: Any = getattr(module, "_tensors_data_ptrs_at_indices_equal", None)
        if found is not None:
            return functools.partial(_extension_test, found)
    return None


def _extension_test(found: Any, indices: Sequence[int], tensors: Sequence[Tensor]) -> AddressTest:
    places = list(indices)
    by_place = [0] * (max(places, default=-1) + 1)
    for place, tensor in zip(places, tensors, strict=True):
        by_place[place] = tensor.data_ptr()
    return lambda *args: bool(found(list(args), by_place, places))


def compiled() -> AddressTests | None:
    """The compiled test, or None where it cannot be had; compiled once per machine and version."""
    return _of_builtin(mapped, _NOT_LOOKED_AT)


def address_test(indices: Sequence[int], tensors: Sequence[Tensor]) -> AddressTest:
    """Whether the arguments at these indices lie where these tensors do, by the cheapest test that can be had."""
    return (compiled() or of_extension(torch._C) or mapped)(indices, tensors)


def compiled_followed() -> AddressTests | None:
    """The compiled test that is `followed`, where it can be had: it reads the storages that it has asked for."""
    home = _home()
    if home is None:
        found = compiled()
        return None if found is None else followed(found)
    return _of_builtin(followed(mapped), home)


#: In place of `_home`.
_NOT_LOOKED_AT: Final = -1
_WORDS: Final = 8


@functools.cache
def _home() -> int | None:
    """Where in a storage of torch the pointer to its memory is, as two storages show it; None if they do not."""
    probes = [torch.UntypedStorage(64 * (1 + number)) for number in range(2)]
    words = [(ctypes.c_void_p * _WORDS).from_address(probe._cdata) for probe in probes]
    for place, found in enumerate(zip(*words, strict=True)):
        if list(found) == [probe.data_ptr() for probe in probes]:
            return place * ctypes.sizeof(ctypes.c_void_p)
    return None


def _of_builtin(careful: AddressTests, home: int) -> AddressTests | None:
    if not variables.switch("ACLGRAPH_NATIVE_ADDRESSES", True):
        return None
    entry = native.data_ptr_entry()
    make = native.builtin(
        "air_address_test", ctypes.c_void_p, ctypes.py_object, ctypes.c_long,
        ctypes.POINTER(ctypes.c_long), ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p), ctypes.c_long,
    )  # fmt: skip
    if make is None or entry is None:
        return None

    few = _FEW if home == _NOT_LOOKED_AT else 1  # in Python, one that is `followed` asks twice

    def test(indices: Sequence[int], tensors: Sequence[Tensor]) -> AddressTest:
        # one that is `followed` keeps the tensors, and so their storages
        portable = careful(indices, tensors)
        if len(indices) < few:
            return portable
        count = len(indices)
        addresses = ctypes.c_void_p * count
        made: AddressTest = make(
            entry, portable, count, (ctypes.c_long * count)(*indices),
            addresses(*[tensor.data_ptr() for tensor in tensors]),
            addresses(*[storage_of(tensor) for tensor in tensors]),
            home,
        )  # fmt: skip
        return made

    return test


class Shared:
    """Gives keys whose inputs have the same addresses one test: a switch of keys finds it in the caches."""

    def __init__(self, tests: AddressTests) -> None:
        self._tests = tests
        self._made: weakref.WeakValueDictionary[object, AddressTest] = weakref.WeakValueDictionary()

    def __call__(self, indices: Sequence[int], tensors: Sequence[Tensor]) -> AddressTest:
        key = tuple((i, t.data_ptr(), storage_of(t)) for i, t in zip(indices, tensors, strict=True))
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._tests(indices, tensors)
        return made
