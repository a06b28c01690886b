"""How often keys came lately."""

from __future__ import annotations

from air_aclgraph._recent import Recent


def test_the_key_that_came_longest_ago_is_forgotten_first() -> None:
    recent = Recent(2)
    assert [recent.came(key) for key in "abaca"] == [1, 1, 2, 1, 3]
    assert recent.came("b") == 1, "c pushed it out, and not a, which has come since"


def test_a_key_that_is_forgotten_begins_anew() -> None:
    recent = Recent(2)
    recent.came("a")
    recent.forget("a")
    recent.forget("never came")
    assert recent.came("a") == 1
