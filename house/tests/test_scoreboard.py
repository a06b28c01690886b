"""The scoreboard: what is a record, what counts as a loss, and when the pages are out of date."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from house.scoreboard import __main__ as command
from house.scoreboard import _boards, _guide, _page, _records, _runs
from house.scoreboard._records import Record, RecordError

ROOT = Path(__file__).resolve().parents[2]
CHAIN = {"eager": 100.0, "Inductor": 40.0, "AIR, kernels of Inductor": 36.0, "AIR, kernels of ATen": 90.0}


def recorded(**boards: dict[str, float]) -> dict[_records.Ground, Record]:
    return {"cpu": Record("cpu", "a processor", "2026-01-01", False, {"torch": "2.13"}, boards)}


def board(key: str) -> _boards.Board:
    return next(each for each in _boards.BOARDS if each.key == key)


def test_the_committed_pages_say_what_the_committed_records_say() -> None:
    assert command.main(["--check"], ROOT) == 0


def test_every_table_reads_a_benchmark_that_is_started_on_its_ground() -> None:
    started = {(run.key, run.ground) for run in _runs.RUNS}
    assert {(each.run, each.ground) for each in _boards.BOARDS} == started
    assert len({each.key for each in _boards.BOARDS}) == len(_boards.BOARDS)


def test_benchmarks_that_are_started_exist_and_write_json() -> None:
    for run in _runs.RUNS:
        package, _, file = run.script.partition("/")
        assert "--json" in (ROOT / "packages" / package / "benchmarks" / file).read_text(), run


def test_rows_are_ratios_to_the_base_of_their_table() -> None:
    rows = _boards.lines(board("chain"), recorded(chain=CHAIN)["cpu"])
    assert {row.name: row.ratio for row in rows} == pytest.approx(
        {"eager": 1.0, "Inductor": 0.4, "AIR, kernels of Inductor": 0.36, "AIR, kernels of ATen": 0.9}
    )


def test_a_table_without_its_base_says_what_to_measure() -> None:
    with pytest.raises(RecordError, match=r"nothing is recorded for eager.*measure 'fused' anew"):
        _boards.lines(board("chain"), recorded(chain={"Inductor": 1.0})["cpu"])


def test_what_a_benchmark_wrote_is_read_under_the_names_that_are_shown() -> None:
    title = "hot path, 288 parameters, queue 0"
    written = {
        "c  air-aclgraph": {"least_us": 11.0, "median_us": 12.0},
        "c / (a + b)": {"least": 1.1, "median": 1.2},
    }
    assert _boards.taken("hot path, 288", {title: written}) == {"host 288": {"AIR reduce-overhead": 11.0}}
    assert _boards.taken("parameters", {title: written}) == {"parameters": {"288": 1.1}}
    plan = {"plan, collector off, s": {"50000": 2.0, "5000": 0.1}}
    rows = _boards.taken("plan, 8 streams", plan)["plan 8"]
    assert list(rows) == ["5,000", "50,000"]
    assert list(rows.values()) == pytest.approx([2e-5, 4e-5])


def test_a_base_of_two_rows_is_their_sum() -> None:
    rows = {"bare replay": 2.0, "Dynamo alone": 8.0, "AIR reduce-overhead": 11.0, "npugraph_ex": 30.0}
    record = Record("sim", "", "", False, {}, {"host 288": rows})
    shown = {line.name: line for line in _boards.lines(board("host 288"), record)}
    assert shown["AIR reduce-overhead"].ratio == pytest.approx(1.1)
    assert not shown["AIR reduce-overhead"].lost_to


def test_a_row_above_the_best_peer_is_a_loss_with_its_reason_on_every_page() -> None:
    records = recorded(chain=CHAIN)
    lost = [line for line in _boards.lines(board("chain"), records["cpu"]) if line.lost_to]
    assert [(line.name, line.lost_to) for line in lost] == [("AIR, kernels of ATen", "Inductor")]
    assert lost[0].reason is not None
    english, chinese = _guide.pages(records).values()
    assert f"loss to Inductor: {lost[0].reason.en}" in english
    assert lost[0].reason.zh in chinese
    assert "loses to Inductor" in _page.page(records)


def test_a_loss_without_a_reason_is_a_fault() -> None:
    records = recorded(zoo={"aot_eager": 1.0, "Inductor": 2.0, "AIR max-autotune": 3.0})
    assert any("'AIR max-autotune' loses to 'Inductor'" in fault for fault in _boards.unexplained(records))


def test_growth_above_what_is_wanted_is_a_loss() -> None:
    records = recorded(nodes={"2,500": 1.0, "10,000": 1.1, "50,000": 1.9})
    assert [bool(line.lost_to) for line in _boards.lines(board("nodes"), records["cpu"])] == [
        False,
        False,
        True,
    ]


def test_tables_without_numbers_are_open_and_counted() -> None:
    assert _boards.sum_of({}) == (0, 0, len(_boards.BOARDS))
    english, _ = _guide.pages({}).values()
    assert english.count("\nOpen.\n") == len(_boards.BOARDS)
    assert _page.page({}).count('<article class="open">') == len(_boards.BOARDS)


@pytest.mark.parametrize(
    "change", [{"schema": 2}, {"ground": "abacus"}, {"boards": {"chain": {"eager": 0}}}, {"more": 1}]
)
def test_a_file_of_another_schema_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "record.json"
    _records.write(recorded(chain=CHAIN)["cpu"], path)
    assert _records.read(path) == recorded(chain=CHAIN)["cpu"]
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(RecordError):
        _records.read(path)


def test_a_page_that_was_edited_is_out_of_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs").mkdir()
    assert command.main([], tmp_path) == 0
    assert command.main(["--check"], tmp_path) == 0
    page = tmp_path / "docs/performance.md"
    page.write_text(page.read_text() + "faster than ever\n")
    assert command.main(["--check"], tmp_path) == 1
    assert "docs/performance.md is out of date" in capsys.readouterr().out


def test_a_benchmark_that_fails_is_named_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "packages/some/benchmarks"
    folder.mkdir(parents=True)
    good = {
        "fused kernels": {
            "chain of 50 operators": {"eager": {"least_us": 2.0}, "Inductor": {"least_us": 1.0}}
        }
    }
    (folder / "good.py").write_text(
        f"import sys; open(sys.argv[2], 'w').write({json.dumps(json.dumps(good))})"
    )
    (folder / "bad.py").write_text("raise SystemExit(3)")
    runs = (_runs.Run("decode", "cpu", "some/bad.py"), _runs.Run("fused", "cpu", "some/good.py"))
    monkeypatch.setattr(_runs, "RUNS", runs)
    monkeypatch.setattr(_records, "versions", lambda ground: {"python": sys.version})
    (tmp_path / "docs").mkdir()
    assert command.main(["--measure", "cpu"], tmp_path) == 1
    assert "not measured: decode, cpu" in capfd.readouterr().out
    kept = _records.read(_records.file_of(tmp_path, "cpu"))
    assert kept.boards == {"chain": {"eager": 2.0, "Inductor": 1.0}}
