"""Fake tensors among arguments are found, and the others made like them."""

from __future__ import annotations

import torch
from torch._subclasses import FakeTensor, FakeTensorMode

from air_graph import all_fake, fake_mode_of


def test_the_mode_of_a_fake_argument_is_found() -> None:
    mode = FakeTensorMode()
    fake = mode.from_tensor(torch.ones(2))
    assert fake_mode_of([3, torch.ones(2), fake]) is mode
    assert fake_mode_of([3, torch.ones(2)]) is None


def test_tensors_beside_a_fake_one_become_fake_and_numbers_stay() -> None:
    mode = FakeTensorMode()
    fake = mode.from_tensor(torch.ones(2))
    first, number, second = all_fake([torch.ones(2, 3), 4, fake], mode)
    assert isinstance(first, FakeTensor)
    assert first.shape == (2, 3)
    assert number == 4
    assert second is fake
