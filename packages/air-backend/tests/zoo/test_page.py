"""The page says how many each mode does right, and why the others fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from zoo import page
from zoo.results import Outcome, Row

SAME = Outcome("same", seconds=1.0, graphs=1, pieces=1)
MODES = ("reduce-overhead", "max-autotune")
ROOT = Path(__file__).resolve().parents[4]


def row(name: str, *outcomes: Outcome) -> Row:
    return Row(
        "lib", name, f"{name.title()} small", outcomes=dict(zip(("aot_eager", *MODES), outcomes, strict=True))
    )


GOOD = row("good", SAME, SAME._replace(captures=1), SAME._replace(pieces=2, eagerly=("aten.x",)))
BAD = row("bad", SAME, SAME, Outcome("error", "ValueError: a | b"))
TORCHS = row("torchs", Outcome("error", "Unsupported"), SAME, Outcome("error", "Unsupported"))
ABSENT = Row("lib", "absent", left_out="too large")


def test_a_row_is_good_or_fails_or_is_torchs_or_is_left_out() -> None:
    assert [page.verdict(each) for each in (GOOD, BAD, TORCHS, ABSENT)] == [
        "good",
        "fails",
        "torch",
        "left out",
    ]


def test_what_was_good_and_is_not_any_more_is_told() -> None:
    kept = [GOOD, BAD, TORCHS, row("lost", SAME, SAME, SAME)]
    gone = Row("lib", "lost", left_out="no small model runs")
    assert page.fallen(kept, [GOOD, BAD, TORCHS, ABSENT, gone]) == [gone]


def test_a_new_version_of_a_library_may_leave_a_few_without_a_model() -> None:
    kept = [replace(row(name, SAME, SAME, SAME), version="1.0") for name in "abcd"]
    left = [Row("lib", name, left_out="eager: AttributeError", version="2.0") for name in "abcd"]
    wrong = replace(row("d", SAME, SAME, Outcome("differs")), version="2.0")
    assert page.fallen(kept, [*left[:3], wrong]) == [wrong]
    assert page.fallen(kept, left) == page.broken_by_library(kept, left) == left
    same_version = [replace(each, version="1.0") for each in left[:1]]
    assert page.fallen(kept, same_version) == same_version


def test_what_torch_does_not_compile_counts_for_no_mode() -> None:
    assert "| lib | 3 | 2 | 2 | 1 | 1 |" in page.text({"cpu": [GOOD, BAD, TORCHS, ABSENT]})


def test_a_row_shows_pieces_captures_and_reasons() -> None:
    lines = page.text({"cpu": [GOOD, BAD, TORCHS, ABSENT]}).splitlines()
    assert "| lib/good | Good | 1.0 | 1 of 1, 1, 1.0 | 2 of 1, 1.0; eagerly `aten.x` |" in lines
    assert any("**error**: ValueError: a \\| b" in line for line in lines)
    assert "Between pieces in max-autotune: `aten.x` (1)." in lines
    assert not any("absent" in line for line in lines)


def test_a_trace_that_does_not_end_is_told_for_every_way() -> None:
    slow = Row("lib", "slow", "Slow small", outcomes={"together": Outcome("slow", "not done")})
    text = page.text({"cpu": [GOOD, slow]})
    assert "| lib | 2 | 2 | 1 | 1 | 0 |" in text
    assert text.count("**slow**: not done") == 3


def test_the_page_of_this_checkout_is_what_its_results_say() -> None:
    assert (ROOT / page.PAGE).read_text() == page.written(ROOT), "nox -s zoo -- --page"
