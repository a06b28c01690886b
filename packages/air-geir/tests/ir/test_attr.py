"""Constants and attribute kinds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from air_geir.errors import AttributeKindError
from air_geir.ir import Attr, AttrKind, DataType, TensorValue


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.t(),
        lambda t: t[1:, 2:],
        lambda t: t[::2],
        lambda t: t.expand(3, 4, 6)[1],
        lambda t: t[:, 3],
        lambda t: t[2, 3],
        lambda t: t.unfold(0, 2, 1),
    ],
)
def test_a_constant_from_a_view_holds_the_elements_of_the_view(view: object) -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    value = view(base)  # type: ignore[operator]  # a parametrised lambda
    held = TensorValue.of(value)
    again = TensorValue(held.desc, held.tobytes()).tensor()
    assert held.nbytes == value.numel() * 4
    assert torch.equal(again, value)


@pytest.mark.parametrize(
    "dtype", [d for d in DataType if d.has_torch and d.name not in ("QINT8", "QUINT8", "QINT32", "INT4")]
)
def test_every_type_survives_the_way_through_bytes(dtype: DataType) -> None:
    raw = torch.arange(48, dtype=torch.uint8) % 2
    value = raw.view(dtype.torch).reshape(1, -1)
    held = TensorValue.of(value, dtype)
    again = TensorValue(held.desc, held.tobytes())
    assert torch.equal(again.tensor().view(torch.uint8), value.view(torch.uint8))


def test_a_conjugated_view_is_resolved() -> None:
    value = torch.randn(3, dtype=torch.complex64)
    held = TensorValue.of(value.conj())
    assert torch.equal(TensorValue(held.desc, held.tobytes()).tensor(), value.conj().resolve_conj())


def test_an_empty_constant_has_no_bytes() -> None:
    held = TensorValue.of(torch.empty(0, 3))
    assert held.tobytes() == b""
    assert TensorValue(held.desc, b"").tensor().shape == (0, 3)


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_lists_of_integers_keep_their_values(values: list[int]) -> None:
    assert Attr.of(AttrKind.LIST_INT, values).value == tuple(values)


def test_data_types_become_engine_numbers_in_integer_attributes() -> None:
    assert Attr.of(AttrKind.INT, torch.int64).value == 9
    assert Attr.of(AttrKind.INT, DataType.INT64).value == 9
    assert Attr.of(AttrKind.DTYPE, 9).value is DataType.INT64


@pytest.mark.parametrize(
    ("kind", "value"), [(AttrKind.INT, True), (AttrKind.BOOL, 1), (AttrKind.LIST_INT, 3)]
)
def test_look_alikes_are_refused(kind: AttrKind, value: object) -> None:
    with pytest.raises(AttributeKindError):
        Attr.of(kind, value)


def test_the_kind_of_an_empty_list_is_not_guessed() -> None:
    with pytest.raises(AttributeKindError, match="empty list"):
        Attr.guess([])
