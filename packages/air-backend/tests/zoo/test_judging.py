"""What counts as a difference, and how a mode that differs or raises is told from the others of one trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from zoo import faulty_models, judging

CPU = torch.device("cpu")
WAYS = ("aot_eager", "reduce-overhead", "max-autotune")


def test_structure_type_size_and_value_are_compared() -> None:
    one = torch.tensor([1.0, -2.0])
    assert judging.difference({"a": one}, {"a": one + 1e-6}) is None
    assert "structure" in str(judging.difference({"a": one}, [one]))
    assert "float64" in str(judging.difference(one, one.double()))
    assert "(1,)" in str(judging.difference(one, one[:1]))
    assert "off by 0.5" in str(judging.difference(one, one + 1))
    assert "not finite" in str(judging.difference(one, one / 0))
    assert "1 of 2" in str(judging.difference(one.int(), torch.tensor([1, 5], dtype=torch.int32)))
    assert judging.difference(one, one + 1, shape_only=True) is None


def test_values_are_compared_with_the_largest_of_a_small_tensor() -> None:
    small = torch.tensor([1e-6, 2e-6])
    assert judging.difference(small, small * 1.1) is not None


def test_a_model_that_draws_numbers_is_noticed() -> None:
    assert judging.eager(faulty_models.make("noisy"), CPU)[1]
    assert not judging.eager(faulty_models.make("good"), CPU)[1]


def test_every_way_of_one_trace_is_judged_with_its_pieces_and_captures() -> None:
    made = faulty_models.make("good")
    expected, is_random = judging.eager(made, CPU)
    good = judging.together(made, WAYS, expected, is_random, CPU)
    assert [good[way].kind for way in WAYS] == ["same"] * 3
    assert [(good[way].graphs, good[way].pieces, good[way].captures) for way in WAYS[1:]] == [
        (1, 1, 1),
        (1, 1, 0),
    ]


def _wrong(gm: Any, example_inputs: Any) -> Callable[..., Any]:
    return lambda *args: [value + 1 for value in gm(*args)]


def _refusing(gm: Any, example_inputs: Any) -> Callable[..., Any]:
    raise NotImplementedError("no such operator")


@pytest.mark.parametrize(("backend", "kind", "reason"), [
    (_wrong, "differs", "off by"), (_refusing, "error", "NotImplementedError: no such operator"),
])  # fmt: skip
def test_a_mode_that_goes_wrong_is_told_and_the_others_are_not(
    backend: Any, kind: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = judging.backend_of
    monkeypatch.setattr(judging, "backend_of", lambda way: backend if way == WAYS[1] else usual(way))
    made = faulty_models.make("good")
    expected, is_random = judging.eager(made, CPU)
    assert list(judging.together(made, WAYS, expected, is_random, CPU)) == [WAYS[0], WAYS[2]]
    alone = judging.compiled(made, WAYS[1], expected, is_random, CPU)
    assert alone.kind == kind
    assert reason in alone.reason


def test_a_reason_names_no_folder_of_a_machine() -> None:
    assert judging.told(ValueError("bad at /some/where/model.py:3 and in a/b")).startswith(
        "ValueError: bad at model.py:3 and in a/b"
    )
