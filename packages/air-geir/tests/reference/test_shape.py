"""Kernels that lay elements out anew."""

from __future__ import annotations

import torch

from air_geir.proof import check_call


def test_padding_keeps_every_digit_of_a_whole_number() -> None:
    x = torch.tensor([2**62 + 3, -1])
    check_call(lambda x: torch.constant_pad_nd(x, (1, 2), 2**60 + 1), (x,), {})


def test_padding_with_a_complex_number() -> None:
    check_call(lambda x: torch.constant_pad_nd(x, (1, 2), 1 - 2j), (torch.tensor([1 + 2j, 3 - 1j]),), {})
