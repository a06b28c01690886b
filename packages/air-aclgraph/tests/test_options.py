"""Options of an executable are reported as a user writes them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from air_aclgraph._options import PATHS, Options
from air_config import CompilerConfig, resolve


def reported(**asked: Any) -> dict[str, Any]:
    config = CompilerConfig.preset("reduce-overhead")
    for path, value in asked.items():
        config.set(path.replace("__", "."), value)
    return Options.of(resolve(config)).as_written()


def test_each_field_has_the_name_of_an_option_but_the_one_that_follows_from_others() -> None:
    assert {each.name for each in dataclasses.fields(Options)} - PATHS.keys() == {"bind_large"}
    defaults = reported()
    for path in PATHS.values():
        assert path == "air.adaptive_slots" or defaults[path] == CompilerConfig().get(path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("air.outputs", "guarded"),
        ("air.adaptive_slots", 5),
        ("air.stream_priority", "error"),
        ("debug.aclgraph.disable_mempool_reuse_in_same_fx", True),
        ("debug.aclgraph.static_capture_size_limit", 7),
        ("air.cache.limit_bytes", 4096),
    ],
)
def test_what_was_written_is_what_is_reported(path: str, value: Any) -> None:
    assert reported()[path] != value
    assert reported(**{path: value})[path] == value
