"""All tests of addresses agree with `data_ptr()`."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence
from types import BuiltinFunctionType

import pytest
import torch
from torch import Tensor

from air_aclgraph import _addresses, native

FOLLOWED = [("mapped, followed", _addresses.followed(_addresses.mapped))]
TESTS = [("mapped", _addresses.mapped), *FOLLOWED]
if _addresses.compiled() is not None:
    TESTS.append(("compiled", _addresses.compiled()))  # type: ignore[arg-type]  # not None here
    FOLLOWED.append(("compiled, followed", _addresses.compiled_followed()))  # type: ignore[arg-type]  # not None here
    TESTS.append(FOLLOWED[-1])


@pytest.mark.parametrize(("name", "make"), TESTS, ids=[name for name, _ in TESTS])
def test_one_moved_tensor_among_many_is_found(name: str, make: _addresses.AddressTests) -> None:
    chance = random.Random(0)
    args: list[object] = [7, *[torch.randn(2) for _ in range(40)], None]
    indices = sorted(chance.sample(range(1, 41), 30))
    same = make(indices, [args[i] for i in indices])  # type: ignore[misc]  # tensors there
    assert same(*args)
    for place in range(1, 41):
        changed = list(args)
        changed[place] = torch.randn(2)
        assert same(*changed) == (place not in indices)


@pytest.mark.parametrize(("name", "make"), TESTS, ids=[name for name, _ in TESTS])
def test_moves_that_keep_the_python_object_are_found(name: str, make: _addresses.AddressTests) -> None:
    args: list[Tensor] = [torch.nn.Parameter(torch.randn(2)) for _ in range(10)]
    same = make(range(10), args)
    before = args[4].data
    args[4].data = torch.randn(2)
    assert not same(*args)
    args[4].data = before
    assert same(*args)
    with torch.no_grad():
        args[7].set_(torch.randn(2))  # type: ignore[call-overload]  # stub lacks it
    assert not same(*args)


@pytest.mark.parametrize(("name", "make"), FOLLOWED, ids=[name for name, _ in FOLLOWED])
def test_tensors_of_a_capture_whose_storage_was_emptied_or_filled_again_elsewhere_are_found(
    name: str, make: _addresses.AddressTests
) -> None:
    for count in (3, 40):
        whole = [torch.zeros(4096) for _ in range(count)]
        captured = [tensor[1:] for tensor in whole]
        same = make(range(count), captured)
        others = [_at(tensor) for tensor in captured]  # other storages at the same addresses
        assert same(*others)
        storage = whole[2].untyped_storage()
        storage.resize_(0)
        assert not same(*others)
        between = [torch.zeros(4096) for _ in range(8)]
        storage.resize_(4 * 4096)
        assert same(*others) == (captured[2].data_ptr() == others[2].data_ptr())
        del between


def _at(tensor: Tensor) -> Tensor:
    """Another tensor of another storage at the same address, which nobody may read."""
    found: Tensor = torch.frombuffer(
        (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr()), dtype=torch.float32
    )
    return found


@pytest.mark.parametrize(("name", "make"), TESTS, ids=[name for name, _ in TESTS])
def test_an_argument_that_is_no_tensor_is_an_error_not_a_crash(
    name: str, make: _addresses.AddressTests
) -> None:
    args: list[object] = [torch.randn(2) for _ in range(10)]
    same = make(range(10), args)  # type: ignore[arg-type]  # tensors
    args[3] = "not a tensor"
    with pytest.raises(TypeError):
        same(*args)


def test_keys_with_the_same_addresses_share_a_test_for_as_long_as_one_uses_it() -> None:
    tensors = [torch.randn(2) for _ in range(8)]
    made: list[int] = []

    def counted(indices: Sequence[int], tensors: Sequence[Tensor]) -> _addresses.AddressTest:
        made.append(len(indices))
        return _addresses.mapped(indices, tensors)

    shared = _addresses.Shared(counted)
    first, second = shared(range(8), tensors), shared(range(8), [*tensors])
    assert first is second
    others = shared(range(8), [*tensors[:7], torch.randn(2)])
    assert others is not first
    assert not others(*tensors)
    assert made == [8, 8]
    del first, second, others
    shared(range(8), tensors)
    assert made == [8, 8, 8]


def test_the_compiled_test_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLGRAPH_NATIVE_ADDRESSES", "0")
    assert _addresses.compiled() is None


def test_without_a_compiler_the_portable_test_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(native, "cache_dir", lambda: str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda name: None)
    native.library.cache_clear()
    try:
        assert _addresses.compiled() is None
    finally:
        native.library.cache_clear()


def test_the_tensors_of_a_capture_are_asked_in_the_compiled_test_however_few_they_are() -> None:
    make = _addresses.compiled_followed()
    if make is None:
        pytest.skip("there is no compiler")
    held = [torch.zeros(4)]
    test = make([0], held)
    assert isinstance(test, BuiltinFunctionType)
    assert test(held[0])
    held[0].untyped_storage().resize_(0)
    assert not test(held[0])
