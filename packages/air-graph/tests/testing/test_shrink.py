"""A failing case is made small, and stays one that fails."""

from __future__ import annotations

import wrong_backends
from air_graph.testing import Case, Given, Judge, Statement, campaign, draw_case, run_case, shrink

LONG = Case(
    ("a", "b"),
    (
        Statement("v1 = a + 1", "add"),
        Statement("v2 = v1.t()", "t"),
        Statement("v3 = v2.tril()", "tril"),
        Statement("v4 = b * 2", "mul"),
        Statement("b.add_(1)", "add_"),
    ),
    Given(kind="tuple", parts=(Given("v4"), Given(kind="dict", parts=(Given("v3"), Given("7"))))),
    (
        "a0 = ((torch.arange(9) * 5 % 37 - 17) / 4).reshape((3, 3)).transpose(0, -1)",
        "b0 = ((torch.arange(4) * 5 % 37 - 17) / 4).reshape((4,))",
        "r0 = f(a0, b0)",
        "r0[0].mul_(2)",
        "r1 = f(a0, b0)",
    ),
    dynamic=True,
    options={"x": 1},
)


def test_only_what_matters_is_left() -> None:
    def fails(case: Case) -> bool:
        return "tril" in case.source() and bool(run_case(case).steps)

    small = shrink(LONG, fails)
    assert [s.text for s in small.body] == ["v3 = a.tril()"]
    assert small.script == ("a0 = torch.arange(9.0).reshape((3, 3))", "r0 = f(a0)")
    assert (small.dynamic, small.options) == (False, {})


def test_a_case_that_runs_keeps_running_and_loses_parameters_and_layouts() -> None:
    judge = Judge(wrong_backends.dense)
    small = shrink(LONG, lambda case: judge(case, asks_torch=False).kind == "finding")
    assert judge(small).kind == "finding"
    assert len(small.body) <= 1
    assert len(small.script) <= 3


def test_a_planted_fault_is_found_by_random_cases_and_shrunk_to_the_operator() -> None:
    cases = ((seed, draw_case(seed, families=("arithmetic",))) for seed in range(200))
    negating = [seed for seed, case in cases if case and " = -" in case.source()]
    seeds = negating[8:11]  # the last shows the fault
    judge = Judge(wrong_backends.wrong_negative)
    report = campaign(judge, seeds, families=("arithmetic",), shrink_seconds=20)
    assert report.findings
    assert any(finding.group == ("value", "neg") for finding in report.findings)
    assert min(len(finding.case.body) for finding in report.findings) == 1
    assert "f(" in str(report)


def test_nothing_is_found_in_torchs_own_backend() -> None:
    report = campaign(Judge("aot_eager"), range(6))
    assert not report.findings
    assert report.same + report.dropped + len(report.torch) == 6
    assert report.same > 3
