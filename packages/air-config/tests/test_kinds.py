"""Kinds take what they say, refuse the rest with the reason, and read text."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from air_config import MissingPath, UnusablePath, WrongType, WrongValue
from air_config import _kinds as kinds
from air_config._kinds import Kind


@pytest.mark.parametrize(
    ("kind", "good", "wrong_type", "wrong_value"),
    [
        (kinds.boolean(), [True, False], [0, 1, "true", None, 1.0], []),
        (kinds.integer(1, 5), [1, 5], [True, 1.0, "1", None], [0, 6, -1]),
        (kinds.integer(2, also=(-1,)), [-1, 2, 2**63 - 1], [True, None], [0, 1, -2, 2**63]),
        (kinds.seconds(), [0.5, 3], [True, "3", None], [0.0, -1, float("inf"), float("nan")]),
        (kinds.choice("a", "b"), ["a", "b"], [None, 1, b"a"], ["c", "", "A"]),
        (kinds.text(), ["", "x"], [None, 1, b"x"], []),
        (kinds.text(r"\d+", like="12"), ["1", "12"], [12], ["", "1x", "1\n"]),
        (kinds.integers(0), [[], [0, 1], (2,)], [None, 1, "12", {1}, [True], ["1"]], [[-1]]),
        (kinds.texts(), [[], ["a"], ("b",)], [None, "ab", [1]], [[""]]),
        (kinds.pool_handle(), [(0, 1), (2, 0), [0, 0]], [None, 1, "01"], [(1, 1), (0,), (0, -1), (0, True)]),
        (
            kinds.options_of({"a": int, "b": list}),
            [{}, {"a": 1}, {"b": []}],
            [None, [], {"a": True}],
            [{"c": 1}],
        ),
        (kinds.optional(kinds.boolean()), [None, True], [0, "x"], []),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else "",
)
def test_a_kind_takes_its_values_and_says_why_it_refuses_others(
    kind: Kind[Any], good: list[Any], wrong_type: list[Any], wrong_value: list[Any]
) -> None:
    for value in good:
        kind.take("path", value)
    for value in wrong_type:
        with pytest.raises(WrongType):
            kind.take("path", value)
    for value in wrong_value:
        with pytest.raises(WrongValue):
            kind.take("path", value)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (kinds.boolean(), "1", True),
        (kinds.boolean(), " Off ", False),
        (kinds.boolean(), "yes", True),
        (kinds.integer(0), " 12 ", 12),
        (kinds.integer(-5, also=(-1,)), "-1", -1),
        (kinds.seconds(), "1.5", 1.5),
        (kinds.choice("a"), " a ", "a"),
        (kinds.text(), "a b", "a b"),
        (kinds.integers(0), "[1, 2]", (1, 2)),
        (kinds.texts(), "Add, Mul,", ("Add", "Mul")),
        (kinds.pool_handle(), "[0, 1]", (0, 1)),
        (kinds.options_of({"a": int}), '{"a": 1}', {"a": 1}),
        (kinds.optional(kinds.integer(0)), "None", None),
        (kinds.optional(kinds.integer(0)), "", None),
        (kinds.optional(kinds.integer(0)), "3", 3),
    ],
)
def test_a_kind_reads_text(kind: Kind[Any], text: str, value: Any) -> None:
    assert kind.take_text("path", text, "AIR_X") == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (kinds.boolean(), "2"),
        (kinds.boolean(), ""),
        (kinds.integer(0), "1e3"),
        (kinds.integer(0), "1_000"),
        (kinds.integer(5), "4"),
        (kinds.seconds(), "soon"),
        (kinds.choice("a"), "b"),
        (kinds.integers(0), "[1"),
        (kinds.integers(0), "1"),
    ],
)
def test_text_that_cannot_be_read_names_the_variable(kind: Kind[Any], text: str) -> None:
    with pytest.raises((WrongValue, WrongType)) as caught:
        kind.take_text("some.path", text, "AIR_SOME")
    assert "some.path" in str(caught.value)
    assert "AIR_SOME" in str(caught.value)


def test_a_stored_mapping_cannot_be_changed_behind_the_validator() -> None:
    given = {"a": [1, {"b": 2}]}
    stored = kinds.freeze(given)
    given["a"].append(3)
    assert kinds.thaw(stored) == {"a": [1, {"b": 2}]}
    with pytest.raises(TypeError):
        stored["a"] = 1
    assert stored["a"][1] == {"b": 2}
    assert pickle.loads(pickle.dumps(stored)) == stored


def test_a_missing_file_and_a_bad_one_are_different_errors() -> None:
    assert not issubclass(MissingPath, UnusablePath)
    assert not issubclass(UnusablePath, MissingPath)


def test_a_number_beside_special_values_is_answered_without_the_code_of_validators() -> None:
    with pytest.raises(WrongValue) as caught:
        kinds.integer(2, also=(-1,)).take("some.option", 0)
    assert "an int from 2 up, or -1" in str(caught.value)
    assert "must be >= 2: 0" in str(caught.value)
    assert "alidator" not in str(caught.value)
