"""Copies of arguments lie, and share memory, as the arguments do."""

from __future__ import annotations

from typing import Any

import torch

from air_backend._copied import copied, move_on


def test_copies_lie_as_the_tensors_do_and_share_memory_as_they_do(device: str) -> None:
    base = torch.arange(24.0, device=device).view(4, 6)
    given: dict[str, Any] = {
        "columns": base[:, 1::2],
        "turned": base.t(),
        "twice": [base, base],
        "other": base + 1,
        "number": 3,
    }
    made = copied(given)
    assert made["number"] == 3
    assert made["twice"][0] is made["twice"][1]
    for name in ("columns", "turned", "other"):
        old, new = given[name], made[name]
        assert torch.equal(old, new)
        assert (new.stride(), new.storage_offset()) == (old.stride(), old.storage_offset())
    made["turned"].zero_()
    assert not made["columns"].any(), "they share memory"
    assert not made["twice"][0].any()
    assert made["other"].any()
    assert base.any(), "which is not the caller's"


def test_copies_keep_bits_gradients_wanted_and_other_layouts() -> None:
    number = torch.randn(3, dtype=torch.complex64)
    sparse = torch.eye(3).to_sparse()
    weight = torch.nn.Parameter(torch.ones(2))
    conjugated, negated, matrix, parameter = copied((number.conj(), number.conj().imag, sparse, weight))
    assert conjugated.is_conj()
    assert torch.equal(conjugated, number.conj())
    assert negated.is_neg()
    assert torch.equal(negated, number.conj().imag)
    assert torch.equal(matrix.to_dense(), torch.eye(3))
    assert parameter.requires_grad
    assert parameter.is_leaf


def test_elements_move_on_in_place_where_each_has_memory_of_its_own() -> None:
    rows, ones = torch.arange(6.0).view(2, 3).t(), torch.ones(1).expand(4)
    move_on([rows, ones, torch.arange(3)], 1)
    assert rows.flatten().tolist() == [5, 0, 3, 1, 4, 2]
    assert ones.tolist() == [1] * 4
