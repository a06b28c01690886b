"""Presets: each mode is one; they give way to everything the user says."""

from __future__ import annotations

import pytest

from air_config import PRESETS, CompilerConfig, Context, WrongValue, resolve
from air_config._tree import OPTIONS


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_sets_checked_values_of_real_options(name: str) -> None:
    for path, value in PRESETS[name].values.items():
        assert OPTIONS[path].kind.take(path, value) == value


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead", "npugraph_ex"])
def test_each_mode_is_a_preset(mode: str) -> None:
    assert resolve(CompilerConfig.preset(mode)).mode == mode


def test_a_preset_is_not_an_assignment() -> None:
    config = CompilerConfig.preset("checked")
    assert config.assigned() == {}
    settings = resolve(config)
    assert (settings.mode, settings.air.outputs, settings.air.verify) == ("reduce-overhead", "guarded", True)
    assert str(settings.origin("air.outputs")) == "preset checked"


def test_the_preset_of_the_mode_in_effect_is_there_without_being_named() -> None:
    config = CompilerConfig()
    assert resolve(config).air.reinplace_with_streams == "seed"
    config.mode = "npugraph_ex"
    assert resolve(config).air.reinplace_with_streams == "ordering"
    assert str(resolve(config).origin("air.reinplace_with_streams")) == "preset npugraph_ex"
    config.air.reinplace_with_streams = "seed"
    assert resolve(config).air.reinplace_with_streams == "seed"


def test_a_mode_from_the_environment_brings_its_preset() -> None:
    settings = resolve(CompilerConfig(), Context(env={"AIR_MODE": "npugraph_ex"}))
    assert settings.air.reinplace_with_streams == "ordering"


def test_the_default_preset_changes_nothing() -> None:
    assert resolve(CompilerConfig.preset("default")) == resolve(CompilerConfig())


def test_an_unknown_preset_lists_them_and_names_the_nearest() -> None:
    with pytest.raises(WrongValue, match="reduce-overhead") as caught:
        CompilerConfig.preset("reduce_overhead")
    assert "did you mean 'reduce-overhead'?" in str(caught.value)


def test_presets_are_part_of_what_a_configuration_is() -> None:
    checked = CompilerConfig.preset("checked")
    assert checked != CompilerConfig()
    assert checked.digest != CompilerConfig().digest


def test_what_was_asked_is_what_was_assigned_over_the_values_of_the_preset() -> None:
    config = CompilerConfig.preset("checked")
    config.air.sync = "off"
    assert config.asked() == {**PRESETS["checked"].values, "air.sync": "off"}
    assert CompilerConfig().asked() == {}
