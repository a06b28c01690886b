"""Every pass names the option that switches it, and that option switches this pass and no other."""

from __future__ import annotations

import pytest

from air_backend import _passes
from air_config import OPTIONS, CompilerConfig, Context, resolve
from air_fxpasses import Pass, default_passes

SWITCHED = [one for one in default_passes() if one.option]


def chosen(config: CompilerConfig) -> list[Pass]:
    return list(_passes.chosen(resolve(config, Context(device="cpu")), [], config))


@pytest.mark.parametrize("one", SWITCHED, ids=lambda one: one.name)
def test_the_option_of_a_pass_switches_it_and_nothing_else(one: Pass) -> None:
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    before = chosen(config)
    assert one in before
    config.set(one.option, not OPTIONS[one.option].default)
    assert chosen(config) == [other for other in before if other != one]


def test_in_max_autotune_no_pass_says_in_whose_memory_a_value_lies() -> None:
    config = CompilerConfig()
    config.mode = "max-autotune"
    assert [one.name for one in chosen(config)] == [
        "eliminate_dead_code",
        "decompose_auto_functionalized",
        "remove_noop",
        "fuse_patterns",
        "eliminate_dead_code",
    ]
    config.debug.run_eagerly = True
    assert not chosen(config)


def test_all_switchable_passes_are_met_above() -> None:
    assert len({one.option for one in SWITCHED}) == len(SWITCHED) == 6
