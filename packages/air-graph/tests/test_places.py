"""Copies of tensors lie, and share memory, as the tensors do."""

from __future__ import annotations

import torch

from air_graph import copied, same_place


def test_copies_that_share_memory_share_that_of_a_copy() -> None:
    base = torch.arange(12.0).view(3, 4)
    column, turned, other = copied([base[:, 1], base.t(), base.clone()])
    turned.zero_()
    assert not column.any()
    assert other.any()
    assert base.any()
    assert (column.stride(), column.storage_offset()) == ((4,), 1)


def test_one_object_is_one_object_among_the_copies() -> None:
    x = torch.ones(2)
    made = copied({"first": x, "again": [x, 3]})
    assert made["first"] is made["again"][0]
    assert made["again"][1] == 3


def test_copies_want_gradients_where_that_is_asked_for() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    assert not copied(weight).requires_grad
    kept = copied(weight, with_gradients=True)
    assert kept.requires_grad
    assert kept.is_leaf


def test_bits_and_other_layouts_are_kept() -> None:
    number = torch.randn(3, dtype=torch.complex64)
    conjugated, negated, sparse = copied([number.conj(), number.conj().imag, torch.eye(3).to_sparse()])
    assert conjugated.is_conj()
    assert negated.is_neg()
    assert torch.equal(conjugated, number.conj())
    assert torch.equal(sparse.to_dense(), torch.eye(3))


def test_a_place_in_another_storage_has_its_values() -> None:
    x, y = torch.arange(6.0).view(2, 3)[1], torch.arange(10.0, 16.0)
    assert same_place(x, y.untyped_storage()).tolist() == [13.0, 14.0, 15.0]
