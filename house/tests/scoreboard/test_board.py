"""A scoreboard: ratios of one table, losses with a reason, and a document that is kept up to date."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from house.benchmarks import BENCHMARKS
from house.scoreboard import __main__ as command
from house.scoreboard import document, page
from house.scoreboard.board import Board, Row, Section, boards, read, written
from house.scoreboard.sources import SOURCES, sections

TABLE = {
    "eager": {"least_us": 160.0},
    "Inductor": {"least_us": 32.0},
    "AIR, kernels of Inductor": {"least_us": 40.0},
    "AIR, kernels of Inductor, inputs bound": {"least_us": 30.0},
}


def board(*found: Section) -> Board:
    return Board("cpu", "2026-01-01", "abc", {"torch": "2.13.0"}, found)


def chain() -> Section:
    (section,) = sections("cpu", {"fused kernels": {"chain of 50 operators": TABLE}})
    return section


def test_ratios_are_to_the_base_of_the_table_and_the_best_peer_is_what_air_is_held_to() -> None:
    section = chain()
    assert [row.ratio for row in section.rows] == [5.0, 1.0, 1.25, 0.9375]
    assert section.best_peer is not None
    assert section.best_peer.name == "Inductor"
    assert section.verdict == "behind: 1.25"


def test_a_base_may_be_a_sum() -> None:
    table = {"a  bare replay": 2.0, "b  Dynamo": 78.0, "c  air-aclgraph": 100.0, "d1 TorchAir": 260.0}
    (section,) = sections(
        "air-sim", {"hot path, 288 parameters, queue 0": {k: {"least_us": v} for k, v in table.items()}}
    )
    assert section.ours is not None
    assert section.ours.ratio == 1.25
    assert section.verdict == "ahead: 0.38"


def test_a_loss_is_shown_with_its_reason_and_one_without_is_a_fault() -> None:
    section = chain()
    assert section.because in document.page({"cpu": board(section), "air-sim": None, "cuda": None})
    assert not list(board(section).faults())
    (fault,) = board(dataclasses.replace(section, because="")).faults()
    assert fault == "chain: AIR is behind: 1.25 and no reason stands beside its row"


def test_a_ground_that_was_not_recorded_is_shown_as_open() -> None:
    text = document.page({"cpu": None, "air-sim": None, "cuda": None})
    assert text.count(document.OPEN) == 3


def test_what_is_written_is_read(tmp_path: Path) -> None:
    made = board(chain(), Section("x", "Title", "a", "s", (Row("a", 1.0, 1.0, "other"),)))
    (tmp_path / "cpu.json").write_text(written(made))
    assert read(tmp_path / "cpu.json") == made
    assert boards(tmp_path) == {"cpu": made, "air-sim": None, "cuda": None}


def test_a_page_out_of_date_fails_the_check(tmp_path: Path) -> None:
    (tmp_path / command.RESULTS).mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / command.RESULTS / "cpu.json").write_text(written(board(chain())))
    assert command.check(tmp_path) == ["docs/performance.md is out of date: python -m house.scoreboard pages"]
    command.pages(tmp_path)
    assert command.check(tmp_path) == []
    assert "AIR, kernels of Inductor" in (tmp_path / command.PAGE).read_text()


def test_a_folder_without_a_table_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "ROOT", tmp_path)
    (tmp_path / "other.json").write_text(json.dumps({"something": {}}))
    assert command.main(["gather", "--ground", "cpu", str(tmp_path)]) == 1
    assert "no table for cpu" in capsys.readouterr().out
    assert not (tmp_path / command.RESULTS).exists()


def test_names_of_rows_are_text_on_the_page() -> None:
    section = Section("x", "T", "a", "us", (Row("<b>", 1.0, 1.0, "air"),))
    assert "&lt;b&gt;" in page.page({"cpu": board(section), "air-sim": None, "cuda": None})


def test_every_source_is_a_benchmark_that_writes_numbers() -> None:
    known = {(package, b.script) for package, listed in BENCHMARKS.items() for b in listed if b.writes_json}
    assert {(source.package, source.script) for source in SOURCES} <= known


def test_the_recorded_boards_are_in_order() -> None:
    assert command.check(command.ROOT) == []
