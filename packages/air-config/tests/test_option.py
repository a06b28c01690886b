"""Groups: unknown names, forgotten assignments, copies, and what they show of themselves."""

from __future__ import annotations

import copy
import pickle

import pytest

from air_config import CompilerConfig, ConfigError, NotAGroup, UnknownOption, WrongType
from air_config._option import nearest


def test_a_name_that_only_resembles_one_of_another_feature_is_not_taken_for_it() -> None:
    with pytest.raises(UnknownOption, match=r"did you mean 'debug\.graph_dump\.type'"):
        CompilerConfig().debug.graph_dump.enabled = True  # type: ignore[attr-defined]  # the mistake under test


def test_reading_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownOption, match=r"did you mean 'debug\.run_eagerly'") as caught:
        CompilerConfig().debug.run_eager  # type: ignore[attr-defined]
    assert caught.value.path == "debug.run_eager"
    assert caught.value.nearest == "debug.run_eagerly"
    assert "run_eagerly" in caught.value.known


def test_a_name_of_another_group_is_found_there() -> None:
    with pytest.raises(UnknownOption) as caught:
        CompilerConfig().debug.clone_input = True  # type: ignore[attr-defined]
    assert caught.value.nearest == "debug.aclgraph.clone_input"


def test_a_leading_underscore_left_out_is_forgiven_in_the_suggestion() -> None:
    with pytest.raises(UnknownOption) as caught:
        CompilerConfig().experimental_config.aclgraph.aclnn_static_shape_kernel = True  # type: ignore[attr-defined]
    assert caught.value.nearest == "experimental_config.aclgraph._aclnn_static_shape_kernel"


def test_a_name_like_nothing_gets_no_suggestion() -> None:
    with pytest.raises(UnknownOption) as caught:
        CompilerConfig().zzzzqqqq  # type: ignore[attr-defined]
    assert caught.value.nearest is None
    assert "mode" in caught.value.known


def test_hasattr_and_getattr_with_a_default_work() -> None:
    config = CompilerConfig()
    assert hasattr(config, "mode")
    assert not hasattr(config, "moda")
    assert getattr(config, "moda", 3) == 3


def test_a_group_cannot_be_replaced() -> None:
    config = CompilerConfig()
    with pytest.raises(NotAGroup, match="set its members"):
        config.debug = CompilerConfig().debug


def test_a_refused_value_changes_nothing() -> None:
    config = CompilerConfig()
    with pytest.raises(WrongType):
        config.debug.run_eagerly = "yes"  # type: ignore[assignment]
    assert config.debug.run_eagerly is False
    assert config.assigned() == {}


def test_deleting_takes_an_assignment_back() -> None:
    config = CompilerConfig()
    config.debug.run_eagerly = True
    del config.debug.run_eagerly
    assert config.debug.run_eagerly is False
    assert config.assigned() == {}
    with pytest.raises(UnknownOption):
        del config.debug.run_eager  # type: ignore[attr-defined]


def test_a_group_cannot_be_deleted_and_its_members_are_listed() -> None:
    config = CompilerConfig()
    with pytest.raises(
        ConfigError, match=r"'debug' is a group of options(?s:.*)delete what is in it: run_eagerly"
    ):
        del config.debug
    assert config.debug.run_eagerly is False


def test_dir_lists_options_and_groups_with_their_underscores() -> None:
    names = dir(CompilerConfig().experimental_config.aclgraph)
    assert "_aclnn_static_shape_kernel" in names
    assert "_asked" not in names
    assert "debug" in dir(CompilerConfig())


def test_repr_shows_what_differs_from_the_defaults() -> None:
    config = CompilerConfig()
    assert repr(config) == "CompilerConfig()"
    config.debug.run_eagerly = True
    config.mode = "max-autotune"
    assert repr(config) == "CompilerConfig(debug.run_eagerly=True)"
    assert repr(config.debug) == "Debug(debug.run_eagerly=True)"


def test_groups_compare_by_value_and_have_no_hash() -> None:
    first, second = CompilerConfig(), CompilerConfig()
    assert first.debug == second.debug
    assert first.debug != first.air
    second.debug.aclgraph.clone_input = False
    assert first.debug != second.debug
    with pytest.raises(TypeError, match="unhashable"):
        hash(first.debug)


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda tree: pickle.loads(pickle.dumps(tree))])
def test_a_group_copies_alone_and_shares_nothing(clone) -> None:  # type: ignore[no-untyped-def]
    config = CompilerConfig()
    config.debug.aclgraph.clone_input = False
    twin = clone(config.debug)
    assert twin == config.debug
    twin.aclgraph.clone_input = True
    assert config.debug.aclgraph.clone_input is False


def test_nearest_ignores_case_and_underscores() -> None:
    assert nearest("_RUN_EAGERLY", ["run_eagerly", "other"]) == "run_eagerly"
    assert nearest("xyz", ["run_eagerly"]) is None


def test_a_misspelt_name_is_an_error_in_every_group_also_below_export() -> None:
    config = CompilerConfig()
    with pytest.raises(UnknownOption, match=r"did you mean 'export\.export_name'"):
        config.export.exprot_name = "x"  # type: ignore[attr-defined]
    with pytest.raises(UnknownOption, match=r"export\.experimental\.enable_lite_export"):
        config.export.experimental.enable_lite_exports = True  # type: ignore[attr-defined]
