"""The JSON Schema accepts what `to_json` writes and refuses what the tree refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from air_config import OPTIONS, CompilerConfig

SCHEMA = CompilerConfig.json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_it_is_a_valid_schema_and_plain_json() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


@pytest.mark.parametrize("name", ["default", "checked", "npugraph_ex"])
def test_it_accepts_what_is_written(name: str) -> None:
    config = CompilerConfig.preset(name)
    config.air.static_kernel.blacklist = ["Add"]
    config.aclgraph_config.use_custom_pool = (0, 3)
    VALIDATOR.validate(json.loads(config.to_json()))
    VALIDATOR.validate(json.loads(config.to_json(only_set=True)))


@pytest.mark.parametrize("path", OPTIONS)
def test_it_accepts_another_value_of_each_option(path: str, another: Callable[[str], Any]) -> None:
    config = CompilerConfig()
    value = os.path.join if "callable" in OPTIONS[path].kind.name else another(path)
    config.set(path, value)
    VALIDATOR.validate(json.loads(config.to_json()))


@pytest.mark.parametrize(
    "tree",
    [
        {"mode": "fast"},
        {"moda": "x"},
        {"debug": True},
        {"debug": {"run_eagerly": 1}},
        {"debug": {"aclgraph": {"static_capture_size_limit": 0}}},
        {"debug": {"aclgraph": {"static_capture_size_limit": True}}},
        {"dump_config": {"dump_step": "x"}},
        {"experimental_config": {"static_model_ops_lower_limit": 1}},
        {"experimental_config": {"aclgraph": {"_super_kernel_optimize_options": {"no": 1}}}},
        {"aclgraph_config": {"use_custom_pool": [1]}},
        {"air": {"static_kernel": {"time_limit_s": 0}}},
        {"$set": ["no"]},
        {"$preset": "no"},
    ],
)
def test_it_refuses_what_the_tree_refuses(tree: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(tree)
    with pytest.raises(ValueError):
        CompilerConfig.from_dict(tree)
