"""Memory of an output's own is made before the capture, and holds what the output used of its storage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import torch
from torch import Tensor

from air_aclgraph.device._own import moved_out, reserved
from air_graph import leaf_storages


def nowhere() -> AbstractContextManager[None]:
    raise AssertionError("an allocation while the capture is running")


def outputs_of(x: Tensor) -> tuple[object, ...]:
    base = x * 2
    return base[1:], base.t(), 3, x.view(-1), torch.view_as_complex(base.view(-1, 2)).conj()


def test_outputs_move_to_memory_that_was_reserved() -> None:
    x = torch.randn(4, 4)
    reserve = reserved(outputs_of(x), [x])
    y = torch.randn(4, 4)
    captured = outputs_of(y)
    moved = moved_out(captured, set(leaf_storages([y])), reserve, nowhere)
    for old, new in zip(captured, moved, strict=True):
        if isinstance(old, Tensor):
            assert isinstance(new, Tensor)
            assert torch.equal(old, new)
            assert old.stride() == new.stride()
            assert old.storage_offset() == new.storage_offset()
    tensors = [t for t in moved if isinstance(t, Tensor)]
    assert len(set(leaf_storages(tensors))) == 2, "a view of the input, and the rest in one storage"
    assert set(leaf_storages(tensors)) == set(leaf_storages([y, *reserve.values()]))


def test_an_output_that_was_an_inputs_memory_before_gets_memory_elsewhere() -> None:
    x = torch.randn(4)
    reserve = reserved([x], [x])
    assert not reserve
    entered = []

    @contextmanager
    def elsewhere() -> Iterator[None]:
        entered.append(True)
        yield

    (moved,) = moved_out([x], set(), reserve, elsewhere)
    assert entered
    assert torch.equal(moved, x)
    assert moved.data_ptr() != x.data_ptr()


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_an_empty_output_is_moved_as_well(shape: tuple[int, ...]) -> None:
    (moved,) = moved_out([torch.empty(shape)], set(), reserved([torch.empty(shape)], []), nowhere)
    assert moved.shape == shape
