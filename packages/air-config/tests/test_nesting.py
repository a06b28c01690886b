"""Nested dicts and dotted paths are two forms of one thing."""

from __future__ import annotations

from typing import Any

import pytest

from air_config import OPTIONS, NotAGroup, UnknownOption
from air_config._nesting import leaves, nested


def test_paths_become_nested_dicts_and_back() -> None:
    values: dict[str, Any] = {path: number for number, path in enumerate(OPTIONS)}
    tree = nested(values)
    assert tree["debug"]["aclgraph"]["clone_input"] == values["debug.aclgraph.clone_input"]
    assert dict(leaves(tree)) == values


def test_a_mapping_as_a_value_is_not_taken_for_a_group() -> None:
    path = "experimental_config.aclgraph._super_kernel_optimize_options"
    assert dict(leaves(nested({path: {"split_mode": 1}}))) == {path: {"split_mode": 1}}


def test_an_unknown_name_is_reported_with_its_whole_path() -> None:
    with pytest.raises(UnknownOption) as caught:
        dict(leaves({"debug": {"aclgraph": {"clone_inputs": True}}}))
    assert caught.value.path == "debug.aclgraph.clone_inputs"
    assert caught.value.nearest == "debug.aclgraph.clone_input"


def test_a_value_in_the_place_of_a_group_is_an_error() -> None:
    with pytest.raises(NotAGroup, match=r"debug\.aclgraph"):
        dict(leaves({"debug": {"aclgraph": 3}}))
