"""A graph runs outside the modes of torch functions, and they are on again after it."""

from __future__ import annotations

import pytest
import torch
from torch.overrides import _get_current_function_mode_stack

from air_aclgraph import outside_modes


def test_a_call_sees_no_mode_and_its_caller_all_of_them() -> None:
    run = outside_modes(lambda x: (x, len(_get_current_function_mode_stack())))
    with torch.device("meta"), torch.device("cpu"):
        entered = _get_current_function_mode_stack()
        assert run(3) == (3, 0)
        assert _get_current_function_mode_stack() == entered


def test_they_are_on_again_where_the_call_fails() -> None:
    def fail() -> None:
        raise ValueError("not today")

    with torch.device("meta"):
        with pytest.raises(ValueError, match="not today"):
            outside_modes(fail)()
        assert torch.ones(1).is_meta


def test_outside_modes_it_is_the_function() -> None:
    assert outside_modes(lambda *args: args)(1, 2) == (1, 2)
