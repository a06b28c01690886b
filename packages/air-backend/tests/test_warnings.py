"""Warnings pass from one process to another as they are: test runners and pools of workers send them on."""

from __future__ import annotations

import copy
import pickle
from typing import Final

import pytest

from air_backend import eager_calls, errors
from air_backend.errors import BackwardRefused, SharingRefused
from air_backend.inference import errors as kept
from air_graph import SourceLine

LINE: Final = SourceLine.at("model.py", 3, "y = x[mask]")
SHARING: Final = SharingRefused(("cache", "x"), "they overlap", LINE)
MADE: Final = (
    errors.GraphSplit(
        "max-autotune", "graph_0", 2, (("aten.nonzero", "its size depends on data", str(LINE)),)
    ),
    errors.BucketsIgnored("graph_0", "aten.nonzero", "its size depends on data", str(LINE)),
    errors.NotJoined("a result is written", str(LINE), "leave it alone"),
    errors.BudgetIgnored("nobody takes the result of a collective"),
    errors.CompiledByAnother("explain", "aot_eager"),
    errors.DebugFolderWarning("no space"),
    kept.CacheWarning("no space"),
    eager_calls.RunsEagerly("this call runs eagerly", LINE, "do nothing"),
    eager_calls.SharedOtherwise(SHARING),
    eager_calls.NotTraced("cannot view a tensor", LINE, "write it otherwise", is_start=True),
    eager_calls.BackwardLost(BackwardRefused("writes to an argument", LINE)),
    eager_calls.TangentsLost(LINE),
    eager_calls.GradientsBatched(None),
    eager_calls.GradientsCast(LINE),
    eager_calls.GradientsOfGradients(LINE),
)


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        (0, "graph_0 is not compiled (max-autotune)"),
        (1, "graph_0 is cut, and one piece of it is compiled (max-autotune)"),
        (3, "graph_0 is cut into 3 compiled pieces (max-autotune)"),
    ],
)
def test_a_split_says_what_is_left_of_the_graph(pieces: int, told: str) -> None:
    text = str(errors.GraphSplit("max-autotune", "graph_0", pieces, (("mylib.op", "no converter", None),)))
    assert text.startswith(told)
    assert ("crosses the cut" in text) == bool(pieces)


def test_all_of_them_are_here() -> None:
    modules = (vars(module).values() for module in (errors, eager_calls.errors, kept))
    kinds = {
        kind for found in modules for kind in found if isinstance(kind, type) and issubclass(kind, Warning)
    }
    assert {type(warning) for warning in MADE} == kinds


@pytest.mark.parametrize("warning", MADE, ids=lambda warning: type(warning).__name__)
def test_a_warning_comes_out_of_a_pickle_and_of_a_copy_as_it_was(warning: Warning) -> None:
    for again in (pickle.loads(pickle.dumps(warning)), copy.copy(warning)):
        assert type(again) is type(warning)
        assert str(again) == str(warning)


@pytest.mark.parametrize("warning", MADE, ids=lambda warning: type(warning).__name__)
def test_a_warning_can_be_made_of_its_arguments_as_pytest_xdist_does(warning: Warning) -> None:
    again = type(warning)(*warning.args)
    assert str(again).partition("\n")[0] == str(warning).partition("\n")[0]
