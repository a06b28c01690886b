"""Every way of being wrong is found, a refusal is told from it, and so is what is torch's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

import wrong_backends
from air_graph.testing import Case, Given, Judge, Statement

HALVES = Case(
    ("a",),
    (Statement("v1 = a * 2", "mul"), Statement("v2 = v1[1:]", "slice")),
    Given(kind="tuple", parts=(Given("v1"), Given("v2"))),
    ("a0 = torch.arange(6.0).reshape(3, 2)", "r0 = f(a0)"),
)
NEGATIVE = Case(("a",), (Statement("v1 = -a", "neg"),), Given("v1"), ("a0 = torch.arange(4.0)", "r0 = f(a0)"))
WRITES = Case(("a",), (Statement("a.add_(1)", "add_"),), Given("a.sum()"), NEGATIVE.script)
TWICE = replace(NEGATIVE, script=(*NEGATIVE.script, "a1 = torch.ones(4)", "r1 = f(a1)"))
SELF = Case(
    ("a",),
    (Statement("v1 = a + 1", "add"),),
    Given(kind="tuple", parts=(Given("a"), Given("v1"))),
    TWICE.script,
)


@pytest.mark.parametrize("case", [HALVES, NEGATIVE, WRITES, TWICE, SELF])
def test_a_right_backend_is_as_eager(case: Case) -> None:
    for backend in ("eager", "aot_eager"):
        assert Judge(backend)(case).kind == "same"


def test_copies_in_place_of_views_are_found_by_memory_and_offset() -> None:
    found = Judge(wrong_backends.dense)(HALVES)
    assert found.kind == "finding"
    assert {(d.kind, d.path) for d in found.differences} == {("storage", "r0[1]"), ("offset", "r0[1]")}


def test_a_copy_of_an_input_is_found_by_memory_and_identity() -> None:
    case = replace(SELF, body=(Statement("v1 = a.t()", "t"),), script=("a0 = torch.ones(2, 3)", "r0 = f(a0)"))
    found = Judge(wrong_backends.dense)(case)
    assert {d.kind for d in found.differences} >= {"storage", "stride"}


def test_a_held_output_that_the_next_call_overwrites_is_found() -> None:
    found = Judge(wrong_backends.one_buffer)(TWICE)
    assert found.kind == "finding"
    assert found.first.path == "r0"
    assert found.first.kind == "value"
    assert found.first.text == "r1 = f(a1)"


def test_a_write_that_does_not_reach_the_input_is_found() -> None:
    found = Judge(wrong_backends.forgets_writes)(WRITES)
    assert [(d.kind, d.path) for d in found.differences] == [("value", "a0")]


def test_a_wrong_value_is_found() -> None:
    found = Judge(wrong_backends.wrong_negative)(NEGATIVE)
    assert found.first.kind == "value"


def test_what_the_reference_does_alike_is_torchs() -> None:
    judge = Judge(wrong_backends.wrong_negative, references=(wrong_backends.wrong_negative,))
    assert judge(NEGATIVE).kind == "torch"


def test_another_fault_of_the_reference_excuses_nothing() -> None:
    case = replace(HALVES, body=(*HALVES.body, Statement("v3 = -a", "neg")))
    case = replace(case, returns=replace(case.returns, parts=(*case.returns.parts, Given("v3"))))
    assert Judge(wrong_backends.dense, references=(wrong_backends.wrong_negative,))(case).kind == "finding"


def test_kinds_that_are_ignored_do_not_count() -> None:
    assert Judge(wrong_backends.dense, ignored=("storage", "offset"))(HALVES).kind == "same"


def test_an_error_with_place_and_advice_is_a_refusal_and_counted_by_its_reason() -> None:
    found = Judge(wrong_backends.refusal)(NEGATIVE)
    assert (found.kind, found.reason) == ("refused", "RuntimeError: no such operator")


@pytest.mark.parametrize("backend", [wrong_backends.raw_error, wrong_backends.refusal_without_a_place])
def test_a_raw_error_and_one_without_a_place_are_findings(backend: object) -> None:
    found = Judge(backend)(NEGATIVE)  # type: ignore[arg-type]
    assert (found.kind, found.first.kind) == ("finding", "raises")


def test_a_case_that_eager_refuses_is_dropped() -> None:
    assert (
        Judge("eager")(replace(NEGATIVE, body=(Statement("v1 = a @ a.t() @ a @ a", "x"),))).kind == "dropped"
    )


def test_options_of_the_judge_and_of_the_case_reach_the_backend() -> None:
    seen: list[object] = []

    def backend(gm: object, inputs: object, options: object = None) -> object:
        seen.append(options)
        return gm

    Judge(backend, {"mode": "a"})(replace(NEGATIVE, options={"b": 1}))
    assert seen == [{"mode": "a", "b": 1}]


def test_a_run_without_an_end_is_a_finding() -> None:
    def backend(gm: object, inputs: object) -> object:
        while True:
            pass

    found = Judge(backend, seconds=1.0)(NEGATIVE)
    assert (found.kind, found.first.kind) == ("finding", "raises")
    assert "TookTooLong" in found.first.path or "more than 1 s" in found.first.detail
