"""Sample calls of every declared operator: what its tests run, and what a device can be compared on."""

from __future__ import annotations

from collections.abc import Iterator

from air_fxpasses.npu_cards import Sample, operators

__all__ = ["Sample", "samples"]


def samples() -> Iterator[Sample]:
    """The sample calls of every card, with arguments that are the same in every process."""
    for card in operators():
        yield from card.calls()
