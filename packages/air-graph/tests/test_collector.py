"""The cycle collector is paused for a while, and left as it was found."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from air_graph import collector_paused


@pytest.fixture(autouse=True)
def _on() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_is_on_again_afterwards_also_after_an_error() -> None:
    def fail() -> None:
        assert not gc.isenabled()
        raise ValueError

    with pytest.raises(ValueError), collector_paused():
        fail()
    assert gc.isenabled()


def test_one_that_was_off_stays_off() -> None:
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_a_function_is_run_without_it_each_time() -> None:
    @collector_paused()
    def is_on() -> bool:
        return gc.isenabled()

    assert [is_on(), is_on(), gc.isenabled()] == [False, False, True]
