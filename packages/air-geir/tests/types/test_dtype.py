"""Numberings of data types."""

from __future__ import annotations

import pytest
import torch

from air_geir.errors import DTypeError
from air_geir.types import DataType, Format


def test_the_two_numberings_differ_where_they_should() -> None:
    pairs = {d.name: (d.value, d.api) for d in DataType}
    assert pairs["FLOAT"] == (1, 0)
    assert pairs["INT64"] == (8, 9)
    assert pairs["BOOL"] == (11, 12)
    assert pairs["BF16"] == (27, 27)
    assert pairs["UNDEFINED"] == (0, 28)


def test_engine_numbers_are_unique_and_dense() -> None:
    numbers = sorted(d.api for d in DataType if d.api >= 0)
    assert numbers == [n for n in range(42) if n not in (5,)]


def test_every_engine_number_leads_back() -> None:
    assert all(DataType.from_api(d.api) is d for d in DataType if d.api >= 0)
    with pytest.raises(DTypeError):
        DataType.from_api(99)


def test_torch_types_lead_back() -> None:
    for dtype in (
        torch.float32,
        torch.bfloat16,
        torch.int64,
        torch.bool,
        torch.complex64,
        torch.float8_e4m3fn,
    ):
        assert DataType.of(dtype).torch is dtype


def test_a_type_without_counterpart_is_refused() -> None:
    with pytest.raises(DTypeError, match="no torch type"):
        _ = DataType.STRING.torch
    with pytest.raises(DTypeError):
        DataType.of(torch.bits8)


def test_packed_types_take_part_of_a_byte() -> None:
    assert DataType.INT4.nbytes(3) == 2
    assert DataType.UINT1.nbytes(9) == 2


def test_internal_formats_are_known() -> None:
    assert Format.FRACTAL_NZ.is_internal
    assert not Format.NCHW.is_internal
