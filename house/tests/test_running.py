"""How sessions start pytest for several packages."""

from __future__ import annotations

from typing import Any

import pytest
from nox.command import CommandFailed

from house.sessions.running import in_turn


class Session:
    """Fails for one folder; ends as nox does."""

    posargs = ()

    def __init__(self) -> None:
        self.tested: list[str] = []

    def run(self, *command: str, **_: Any) -> None:
        self.tested.append(command[-1])
        if command[-1] == "packages/air-graph/tests":
            raise CommandFailed

    def error(self, text: str) -> None:
        raise SystemExit(text)


def test_the_packages_after_one_that_fails_are_tested_as_well() -> None:
    session: Any = Session()
    with pytest.raises(SystemExit, match=r"tests failed in packages/air-graph/tests$"):
        in_turn(session, ("air-graph", "air-streams"), "-m", "slow", env={})
    assert session.tested == ["packages/air-graph/tests", "packages/air-streams/tests"]
