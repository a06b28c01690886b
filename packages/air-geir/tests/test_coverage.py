"""How core ATen is lowered, and the page that says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from air_geir.__main__ import main
from air_geir.coverage import MISSING, core_aten, core_coverage, operators_page, way_of


def test_N04_every_core_aten_operator_is_lowered() -> None:
    rows = core_coverage()
    assert len(rows) > 180
    assert [r.name for r in rows if r.way == MISSING] == []


def test_what_nothing_translates_is_called_missing() -> None:
    assert way_of("aten.linalg_qr.default").way == MISSING
    assert "aten.add.Tensor" in set(core_aten())


def test_S26_a_page_of_operators_that_is_out_of_date_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The session `docs` asks this of docs/operators.md, in a process where no test registered a converter."""
    page = tmp_path / "operators.md"
    assert main(["operators", "--output", str(page)]) == 0
    assert main(["operators", "--check", str(page)]) == 0
    page.write_text(page.read_text(encoding="utf-8").replace("| 3 |", "| 2 |", 1), encoding="utf-8")
    assert main(["operators", "--check", str(page)]) == 1
    assert f"air_geir operators --output {page}" in capsys.readouterr().err


def test_S26_the_page_names_every_operator() -> None:
    page = Path(__file__).parents[3] / "docs" / "operators.md"
    listed = {
        line.split("`")[1] for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    }
    made = {line.split("`")[1] for line in operators_page().splitlines() if line.startswith("| `")}
    assert made - listed == set(), "run: python -m air_geir operators --output docs/operators.md"


def test_the_command_prints_the_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage"]) == 0
    assert "0 missing" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["--check", "{}/none"], ["--check", "{}"], ["--output", "{}/none/page.md"]]
)
def test_a_page_that_cannot_be_used_is_said_in_a_sentence(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["operators", *(word.format(tmp_path) for word in words)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("python -m air_geir: ")
    assert str(tmp_path) in told
