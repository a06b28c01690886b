from __future__ import annotations

import os
from typing import Any

import pytest

from air_sim._cli import main

pytestmark = pytest.mark.npu


def test_a_command_that_is_not_there_is_named_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "no_such_program", "--flag"]) == 1
    told = capsys.readouterr().err
    assert "no_such_program is no program that can be run here" in told
    assert "air-sim run python script.py" in told


@pytest.mark.parametrize("before", [[], ["--"]])
def test_a_command_keeps_the_words_of_its_own(before: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[Any] = []
    monkeypatch.setattr(os, "execv", lambda path, words: run.append(words))
    monkeypatch.setattr("air_sim._cli.build", lambda: None)
    monkeypatch.setattr("air_sim._cli.environment", lambda libraries, switches: {})
    main(["run", *before, "sh", "-c", "true", "--", "-x"])
    assert run == [["sh", "-c", "true", "--", "-x"]]
