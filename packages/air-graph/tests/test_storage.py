"""Which tensors lie in one storage."""

from __future__ import annotations

import torch

from air_graph import by_storage, leaf_storages, storage_key, storage_of


def test_views_have_the_storage_of_their_base() -> None:
    base = torch.arange(6.0)
    assert storage_of(base[2:]) == storage_of(base) == storage_key(base.view(2, 3))
    assert storage_of(base.clone()) != storage_of(base)


def test_a_sparse_tensor_has_no_storage() -> None:
    sparse = torch.eye(2).to_sparse()
    assert storage_key(sparse) is None
    assert leaf_storages((sparse, 1)) == ()


def test_places_of_one_storage_stand_together_in_their_order() -> None:
    base, other = torch.arange(6.0), torch.ones(2)
    assert by_storage((other, base[1:], "a number", 3, base)) == [[0], [1, 4]]


def test_storages_that_are_left_out_have_no_places() -> None:
    base, other = torch.arange(6.0), torch.ones(2)
    assert by_storage((other, base), {storage_of(base)}) == [[0]]
