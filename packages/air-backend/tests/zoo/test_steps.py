"""A step of training: what it gives and leaves, and that a gradient that is wrong is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from zoo import faulty_models, judging, steps
from zoo.made import Made

CPU = torch.device("cpu")
WAYS = ("aot_eager", "reduce-overhead", "max-autotune")


@pytest.fixture
def made() -> Made:
    found = faulty_models.make("learning")
    steps.to_be_trained(found.model)
    return found


def test_a_step_leaves_gradients_and_statistics(made: Made) -> None:
    got = steps.training(made.model, made.drawn(1))
    assert got.results.shape == (5, 3)
    assert set(got.gradients) == {"first.weight", "first.bias", "norm.weight", "norm.bias"}
    assert all(gradient is not None for gradient in got.gradients.values())
    assert int(got.buffers["norm.num_batches_tracked"]) == 1


def test_what_is_trained_drops_nothing_and_a_second_copy_steps_alike(made: Made) -> None:
    expected, is_random = judging.eager(made, CPU, steps.training)
    assert not is_random
    assert [int(each.buffers["norm.num_batches_tracked"]) for each in expected] == [1, 2]


def test_every_way_of_one_trace_begins_with_the_model_as_it_was_made(made: Made) -> None:
    expected, is_random = judging.eager(made, CPU, steps.training)
    good = judging.together(made, WAYS, expected, is_random, CPU, steps.training)
    assert {way: good[way].kind for way in WAYS} == dict.fromkeys(WAYS, "same")


def _of_twice_the_gradient(gm: Any, example_inputs: Any) -> Callable[..., Any]:
    return lambda *args: [value + (value - value.detach()) for value in gm(*args)]


def test_a_wrong_gradient_is_told_by_its_name(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "backend_of", lambda way: _of_twice_the_gradient)
    expected, is_random = judging.eager(made, CPU, steps.training)
    alone = judging.compiled(made, WAYS[1], expected, is_random, CPU, steps.training)
    assert alone.kind == "differs"
    assert alone.reason.startswith("gradients: result first.weight of 4: off by ")


def test_a_model_without_anything_to_learn_says_so() -> None:
    made = faulty_models.make("good")
    with pytest.raises(ValueError, match="no result depends on a parameter"):
        judging.eager(made, CPU, steps.training)
