"""`CompilerConfig`: equality, copies, dict and JSON with nothing lost, digest, origin, show."""

from __future__ import annotations

import copy
import io
import json
import os.path
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from air_config import (
    OPTIONS,
    CompilerConfig,
    Context,
    NotAGroup,
    UnknownOption,
    WrongType,
    WrongValue,
    resolve,
)

Another = Callable[[str], Any]


def some(another: Another) -> CompilerConfig:
    config = CompilerConfig.preset("checked")
    for path in OPTIONS:
        if "callable" not in OPTIONS[path].kind.name:
            config.set(path, another(path))
    config.set("debug.aclgraph.clone_input", True)
    return config


CLONES: list[Callable[[CompilerConfig], CompilerConfig]] = [
    copy.copy,
    copy.deepcopy,
    lambda config: pickle.loads(pickle.dumps(config)),
    lambda config: CompilerConfig.from_dict(config.to_dict()),
    lambda config: CompilerConfig.from_json(config.to_json()),
    lambda config: CompilerConfig.from_json(config.to_json(indent=None)),
    CompilerConfig.from_options,
]


@pytest.mark.parametrize("clone", CLONES)
def test_every_way_of_copying_keeps_values_preset_and_what_was_assigned(
    clone: Callable[[CompilerConfig], CompilerConfig], another: Another
) -> None:
    for config in (CompilerConfig(), some(another), CompilerConfig.preset("npugraph_ex")):
        twin = clone(config)
        assert twin is not config
        assert twin == config
        assert twin.assigned() == config.assigned()
        assert twin.digest == config.digest
        assert resolve(twin) == resolve(config)


@pytest.mark.parametrize("clone", CLONES)
def test_a_copy_shares_no_group_with_its_original(clone: Callable[[CompilerConfig], CompilerConfig]) -> None:
    config = CompilerConfig()
    twin = clone(config)
    twin.debug.aclgraph.clone_input = False
    twin.air.cache.limit_bytes = 3
    assert config == CompilerConfig()
    assert twin != config


def test_a_partial_dict_counts_as_assigned_in_full() -> None:
    config = CompilerConfig.from_dict({"debug": {"run_eagerly": False}, "mode": "reduce-overhead"})
    assert config.assigned() == {"mode": "reduce-overhead", "debug.run_eagerly": False}


def test_the_short_dict_has_only_what_was_assigned(another: Another) -> None:
    config = CompilerConfig()
    config.debug.aclgraph.clone_input = True
    assert config.to_dict(only_set=True) == {"debug": {"aclgraph": {"clone_input": True}}}
    assert CompilerConfig.from_dict(config.to_dict(only_set=True)).assigned() == config.assigned()
    full = some(another)
    assert CompilerConfig.from_dict(full.to_dict(only_set=True)) == full
    assert CompilerConfig.from_json(full.to_json(only_set=True)) == full


def test_a_complete_dict_does_not_pin_what_nobody_assigned() -> None:
    again = CompilerConfig.from_dict(CompilerConfig().to_dict())
    assert resolve(again, Context(env={"AIR_MODE": "reduce-overhead"})).mode == "reduce-overhead"


def test_a_value_changed_by_hand_in_a_complete_dict_counts_as_assigned() -> None:
    tree = CompilerConfig().to_dict()
    tree["debug"]["aclgraph"]["clone_input"] = False
    assert CompilerConfig.from_dict(tree).assigned() == {"debug.aclgraph.clone_input": False}


def test_a_dict_holds_plain_lists_and_dicts_that_are_its_own() -> None:
    config = CompilerConfig()
    config.experimental_config.aclgraph._super_kernel_optimize_options = {"dcci_before_kernel_start": ["a"]}
    tree = config.to_dict()
    inner = tree["experimental_config"]["aclgraph"]["_super_kernel_optimize_options"]
    assert inner == {"dcci_before_kernel_start": ["a"]}
    inner["dcci_before_kernel_start"].append("b")
    assert config.to_dict() != tree


def test_a_callable_goes_through_json_by_name_and_through_a_dict_as_it_is() -> None:
    config = CompilerConfig()
    config.post_grad_custom_pre_pass = os.path.join
    assert json.loads(config.to_json())["post_grad_custom_pre_pass"] == f"{os.path.join.__module__}:join"
    assert CompilerConfig.from_json(config.to_json()) == config
    assert config.to_dict()["post_grad_custom_pre_pass"] is os.path.join


@pytest.mark.parametrize(
    ("tree", "error"),
    [
        ({"debug": {"run_eager": True}}, UnknownOption),
        ({"debug": True}, NotAGroup),
        ({"modes": "x"}, UnknownOption),
        ({"mode": "x"}, WrongValue),
        ({"mode": 3}, WrongType),
        ({"$set": "mode"}, WrongType),
        ({"$set": ["moda"]}, UnknownOption),
        ({"$preset": "fast"}, WrongValue),
        ({"$preset": 3}, WrongValue),
        ({"post_grad_custom_pre_pass": "no.such:thing"}, WrongValue),
        ([], WrongType),
        (None, WrongType),
    ],
)
def test_a_wrong_dict_is_an_error_that_names_the_place(tree: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        CompilerConfig.from_dict(tree)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null"])
def test_a_text_that_is_no_configuration_is_an_error(text: str) -> None:
    with pytest.raises((WrongValue, WrongType)):
        CompilerConfig.from_json(text)


def test_a_directory_that_is_gone_is_an_error_when_read_and_not_when_copied(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    config = CompilerConfig()
    config.dump_config.dump_path = str(gone)
    text = config.to_json()
    gone.rmdir()
    assert copy.deepcopy(config) == config
    assert pickle.loads(pickle.dumps(config)) == config
    with pytest.raises(FileNotFoundError, match=r"dump_config\.dump_path"):
        CompilerConfig.from_json(text)


def test_a_configuration_is_equal_to_configurations_only() -> None:
    assert CompilerConfig() != {}
    assert CompilerConfig() != resolve(CompilerConfig())
    with pytest.raises(TypeError, match="digest"):
        hash(CompilerConfig())


def test_get_and_set_take_dotted_paths() -> None:
    config = CompilerConfig()
    config.set("debug.aclgraph.static_capture_size_limit", 3)
    assert config.get("debug.aclgraph.static_capture_size_limit") == 3
    for use in (lambda: config.get("debug.aclgraph"), lambda: config.set("debug.aclgrap.x", 1)):
        with pytest.raises(UnknownOption):
            use()


def test_text_can_be_assigned_under_any_flat_name() -> None:
    config = CompilerConfig()
    config.set_text("capture_limit", "3")
    config.set_text("inplace_pass", "off")
    config.set_text("static_kernel.blacklist", "Add,Mul")
    assert config.debug.aclgraph.static_capture_size_limit == 3
    assert config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass is True
    assert config.air.static_kernel.blacklist == ("Add", "Mul")


def test_show_prints_values_origins_and_notices() -> None:
    config = CompilerConfig()
    config.ge_config.oo_level = "O1"
    config.mode = "reduce-overhead"
    out = io.StringIO()
    config.show(Context(env={"AIR_WARMUP": "3"}), file=out)
    lines = out.getvalue().splitlines()
    assert any(line.split() == ["air.warmup", "3", "environment", "AIR_WARMUP"] for line in lines)
    assert any(
        line.startswith("ge_config.oo_level") and "ignored by max-autotune-options" in line for line in lines
    )
    assert sum(line.split()[:1] == [path] for path in OPTIONS for line in lines) == len(OPTIONS)
    assert "notices" in lines


def test_show_prints_to_the_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    CompilerConfig().show(everything=False)
    assert capsys.readouterr().out.startswith("option")


def test_the_type_checker_knows_the_options() -> None:
    config = CompilerConfig()
    flag: bool = config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass
    size: int = config.debug.aclgraph.static_capture_size_limit
    assert (flag, size) == (False, 64)
    with pytest.raises(WrongType):
        config.debug.aclgraph.static_capture_size_limit = "3"  # type: ignore[assignment]
    with pytest.raises(UnknownOption):
        config.debug.aclgraph.no_such_option = 3  # type: ignore[attr-defined]
    name: str = resolve(config).debug.run_eagerly  # type: ignore[assignment]
    assert name is False  # type: ignore[comparison-overlap]


def test_the_path_of_a_group_is_told_from_a_mistyped_one() -> None:
    for use in (lambda: CompilerConfig().get("debug"), lambda: CompilerConfig().set_text("debug", "1")):
        with pytest.raises(UnknownOption, match=r"(?s)'debug' is a group of options.*debug\.run_eagerly"):
            use()


def test_a_path_that_is_no_text_is_a_wrong_type() -> None:
    wrong: Any = 3
    with pytest.raises(WrongType, match="the path of an option"):
        CompilerConfig().get(wrong)


@pytest.mark.parametrize("text", [None, {}, 5])
def test_json_that_is_no_text_is_a_wrong_type(text: Any) -> None:
    with pytest.raises(WrongType, match="JSON as text"):
        CompilerConfig.from_json(text)


def test_a_name_that_stands_twice_in_json_is_refused() -> None:
    with pytest.raises(WrongValue, match="'mode' stands twice"):
        CompilerConfig.from_json('{"mode": "reduce-overhead", "mode": "max-autotune"}')


def test_json_that_is_nested_without_end_is_refused() -> None:
    with pytest.raises(WrongValue, match="recursion"):
        CompilerConfig.from_json('{"debug": ' * 100_000)


def test_the_text_of_a_configuration_has_its_preset() -> None:
    config = CompilerConfig.preset("checked")
    assert repr(config) == "CompilerConfig(preset='checked')"
    config.air.outputs = "clone"
    assert repr(config) == "CompilerConfig(preset='checked', air.outputs='clone')"
    assert repr(CompilerConfig()) == "CompilerConfig()"
