"""The commits that CONTRIBUTING.md names as examples are there."""

from __future__ import annotations

import re

import pytest

from house.long import ROOT, git

NAMED = re.findall(r'git log [^`]*--grep "([^"]+)"', (ROOT / "CONTRIBUTING.md").read_text())


def test_five_ways_to_add_something_have_an_example() -> None:
    assert len(NAMED) == 5


@pytest.mark.skipif(git("rev-parse", "--is-shallow-repository") != "false", reason="not the whole history")
@pytest.mark.parametrize("words", NAMED)
def test_the_example_is_a_commit_of_this_history(words: str) -> None:
    assert git("log", "--format=%h", "--grep", words)
