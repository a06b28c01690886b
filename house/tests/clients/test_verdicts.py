"""What two runs say together, and a list that cannot hide a new failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from house.clients import verdicts
from house.clients.verdicts import Judged, Private, Ran, Verdict, counts, judged, read_list, share, stale

LISTED = {("m", "t"): Private("looks at _inside", "no attribute '_inside'")}
PASS, FAIL = Ran("pass"), Ran("fail", "AttributeError: no attribute '_inside'")
OTHERWISE = Ran("fail", "AssertionError: 3 != 4")


def verdict(air: Ran, real: Ran) -> Verdict:
    (found,) = judged("m", {"t": air}, {"t": real}, LISTED)
    return found.verdict


@pytest.mark.parametrize(
    ("air", "real", "expected"),
    [
        (PASS, PASS, Verdict.PASS),
        (PASS, FAIL, Verdict.PASS),
        (FAIL, FAIL, Verdict.BOTH),
        (FAIL, Ran("late"), Verdict.BOTH),
        (FAIL, PASS, Verdict.PRIVATE),
        (OTHERWISE, PASS, Verdict.OURS),
        (Ran("died", "signal"), PASS, Verdict.OURS),
        (Ran("unseen", "passes, and has replaced X"), PASS, Verdict.OURS),
        (Ran("skip"), Ran("skip"), Verdict.SKIPPED),
    ],
)
def test_a_verdict_needs_both_runs_and_the_text_that_the_list_gives(
    air: Ran, real: Ran, expected: Verdict
) -> None:
    assert verdict(air, real) is expected


def test_a_module_that_air_cannot_import_fails_in_each_test_that_the_real_one_knows() -> None:
    broken = {"(import)": Ran("fail", "ImportError")}
    found = list(judged("other", broken, {"a": PASS, "b": FAIL}, LISTED))
    assert [result.verdict for result in found] == [Verdict.OURS, Verdict.BOTH]


def test_a_run_that_ended_early_is_no_pass() -> None:
    (found,) = judged("m", {}, {"t": PASS}, {})
    assert found.verdict is Verdict.OURS


def test_the_share_leaves_out_what_is_private_or_fails_in_both() -> None:
    kinds = (Verdict.PASS, Verdict.PASS, Verdict.PASS, Verdict.OURS, Verdict.BOTH, Verdict.PRIVATE)
    results = [Judged("m", str(i), kind, PASS) for i, kind in enumerate(kinds)]
    assert share(results) == 0.75
    assert counts(results) == "3 pass, 1 fails in both, 1 private name, 1 ours"


def test_a_gap_fails_nothing_and_counts_in_the_share() -> None:
    listed = {("m", "t"): Private("AIR keeps no file", "no attribute", gap=True)}
    results = [Judged("m", "other", Verdict.PASS, PASS), *judged("m", {"t": FAIL}, {"t": PASS}, listed)]
    assert results[1].verdict is Verdict.GAP
    assert share(results) == 0.5


def test_a_row_whose_test_passes_now_is_told() -> None:
    assert stale([Judged("m", "t", Verdict.PASS, PASS)], LISTED) == ["m t"]
    assert stale([Judged("m", "t", Verdict.PRIVATE, FAIL)], LISTED) == []


def test_a_test_in_two_rows_of_the_list_is_an_error(tmp_path: Path) -> None:
    row = '[[private]]\nmodule = "m"\nreason = "r"\nshows = "s"\ntests = ["t"]\n'
    path = tmp_path / "private.toml"
    path.write_text(row)
    assert read_list(path) == {("m", "t"): Private("r", "s")}
    path.write_text(row * 2)
    with pytest.raises(ValueError, match="m t is listed twice"):
        read_list(path)


def test_the_recorded_list_gives_a_reason_and_a_text_for_every_test() -> None:
    listed = read_list(verdicts.LIST)
    assert listed
    assert all(row.reason and row.shows for row in listed.values())
