"""Events behind keys, as several threads use them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest
import torch

from air_streams import _events

PLACE = torch.device("cpu")
NUMBER = 20_000


@pytest.fixture
def many_switches() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("many_switches")
def test_S21_markers_are_listed_while_other_threads_record_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[tuple[str, torch.device], torch.Event] = {}
    monkeypatch.setattr(_events, "_of_graphs", known)
    event = torch.Event(PLACE)

    def record() -> None:
        for number in range(NUMBER):
            _events.noted({(f"{_events._MARKER}{number}", PLACE): event})

    thread = threading.Thread(target=record)
    thread.start()
    while thread.is_alive():
        _events.markers(PLACE)
    thread.join()
    assert len(_events.markers(PLACE)) == NUMBER
