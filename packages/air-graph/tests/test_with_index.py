"""A device with its number."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from air_graph import with_index


def test_the_cpu_is_one_device_without_a_number() -> None:
    assert with_index("cpu") == with_index(torch.device("cpu", 0)) == torch.device("cpu")


def test_a_number_that_is_given_stays() -> None:
    assert with_index("cuda:1") == torch.device("cuda", 1)


def test_a_device_without_a_number_is_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_device_module", lambda _: SimpleNamespace(current_device=lambda: 3))
    assert with_index("cuda") == torch.device("cuda", 3)
