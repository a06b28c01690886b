"""Properties over all options: types are kept out, ranges hold, forms round-trip, digests tell equality."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from air_config import OPTIONS, CompilerConfig, ConfigError, Option, WrongType, WrongValue, resolve

PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "path": (str, PurePosixPath),
    "list[int]": (list, tuple),
    "list[str]": (list, tuple),
    "dict": (dict,),
    "pool": (tuple, list),
    "callable": (),
}
"""The exact types a kind takes, by its name: what the reference page tells a user."""
DIRECTORY, FILE = os.getcwd(), os.path.join(os.path.dirname(__file__), "conftest.py")
#: Each takes any arguments.
FUNCTIONS = [os.path.join, logging.debug, logging.info, logging.warning, logging.error]
QUICK = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])

junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.lists(st.one_of(st.integers(), st.text(max_size=3)), max_size=3),
    st.tuples(st.integers(), st.integers()),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.sets(st.integers(), max_size=2),
    st.complex_numbers(),
    st.builds(object),
)


def plain_name(row: Option) -> str:
    return row.kind.name.removesuffix(" or None")


def is_of_the_type(row: Option, value: object) -> bool:
    if value is None:
        return row.kind.name.endswith(" or None")
    if plain_name(row) == "callable":
        return callable(value)
    return type(value) in PYTHON_TYPES[plain_name(row)]


def from_schema(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values a schema allows; the schema is what a reader outside Python is told."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema and schema.get("type") != "integer":
        return st.one_of(*(from_schema(each) for each in schema["anyOf"]))
    kind = schema["type"]
    if kind == "integer":
        return st.one_of(
            *(
                st.sampled_from(each["enum"])
                if "enum" in each
                else st.integers(each.get("minimum"), each.get("maximum"))
                for each in schema.get("anyOf", [schema])
            )
        )
    return MAKERS[kind](schema)


def floats_above(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    low, high = schema["exclusiveMinimum"], schema.get("maximum")
    return st.floats(low, high, exclude_min=True, allow_infinity=False)


def strings(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True)
    return st.text(min_size=schema.get("minLength", 0), max_size=5)


def arrays(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if "prefixItems" in schema:
        return st.sampled_from([[0, 1], [2, 0], [0, 0]])
    return st.lists(from_schema(schema.get("items", {"type": "string"})), max_size=3)


def objects(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    members = {key: from_schema(each) for key, each in schema.get("properties", {}).items()}
    return st.fixed_dictionaries({}, optional=members)


MAKERS: Mapping[str, Callable[[Mapping[str, Any]], st.SearchStrategy[Any]]] = {
    "boolean": lambda schema: st.booleans(),
    "null": lambda schema: st.none(),
    "number": floats_above,
    "string": strings,
    "array": arrays,
    "object": objects,
}


def valid(row: Option) -> st.SearchStrategy[Any]:
    none = st.none() if row.kind.name.endswith(" or None") else st.nothing()
    if plain_name(row) == "path":
        there = os.path.dirname(FILE) if "directory" in row.kind.allowed else FILE
        paths = st.sampled_from([DIRECTORY, there]) if "directory" in row.kind.allowed else st.just(FILE)
        return none if "json" in row.kind.allowed else st.one_of(paths, none)
    if plain_name(row) == "callable":
        return st.one_of(st.sampled_from(FUNCTIONS), none)
    return from_schema(row.kind.schema)


assignments = st.lists(
    st.sampled_from(sorted(OPTIONS)).flatmap(lambda path: st.tuples(st.just(path), valid(OPTIONS[path]))),
    max_size=12,
)


def configuration(pairs: list[tuple[str, Any]], preset: str | None = None) -> CompilerConfig:
    config = CompilerConfig.from_options(mode=preset)
    for path, value in pairs:
        config.set(path, value)
    return config


configurations = st.builds(
    configuration, assignments, st.sampled_from([None, "default", "checked", "npugraph_ex"])
)


@pytest.mark.parametrize("path", OPTIONS)
@QUICK
@given(value=junk)
def test_every_leaf_refuses_a_value_outside_its_type(path: str, value: object) -> None:
    row, config = OPTIONS[path], CompilerConfig()
    if is_of_the_type(row, value):
        try:
            config.set(path, value)
        except WrongType:
            assert plain_name(row).startswith(("list", "dict", "pool"))  # a member has the wrong type
        except ConfigError:
            assert config.assigned() == {}
        else:
            assert list(config.assigned()) == [path]
        return
    with pytest.raises(WrongType) as caught:
        config.set(path, value)
    assert caught.value.path == path
    assert config.assigned() == {}
    assert config == CompilerConfig()


@pytest.mark.parametrize("path", [path for path, row in OPTIONS.items() if plain_name(row) == "int"])
@QUICK
@given(value=st.integers())
def test_every_int_is_taken_inside_its_range_and_refused_outside(path: str, value: int) -> None:
    row, config = OPTIONS[path], CompilerConfig()
    schema = row.kind.schema
    schema = schema["anyOf"][0] if row.kind.name.endswith(" or None") else schema
    spans = schema.get("anyOf", [schema])
    inside = any(
        value in each["enum"] if "enum" in each else each["minimum"] <= value <= each["maximum"]
        for each in spans
    )
    if inside:
        config.set(path, value)
        assert config.get(path) == value
    else:
        with pytest.raises(WrongValue):
            config.set(path, value)


@pytest.mark.parametrize("path", OPTIONS)
@QUICK
@given(data=st.data())
def test_every_leaf_takes_what_its_schema_says(path: str, data: st.DataObject) -> None:
    value = data.draw(valid(OPTIONS[path]))
    config = CompilerConfig()
    config.set(path, value)
    assert list(config.assigned()) == [path]
    assert CompilerConfig.from_dict(config.to_dict()).get(path) == config.get(path)


@settings(max_examples=60, deadline=None)
@given(config=configurations)
def test_from_dict_undoes_to_dict(config: CompilerConfig) -> None:
    again = CompilerConfig.from_dict(config.to_dict())
    assert again == config
    assert again.assigned() == config.assigned()
    assert again.to_dict() == config.to_dict()
    short = CompilerConfig.from_dict(config.to_dict(only_set=True))
    assert short == config
    assert short.assigned() == config.assigned()


@settings(max_examples=60, deadline=None)
@given(config=configurations)
def test_from_json_undoes_to_json(config: CompilerConfig) -> None:
    again = CompilerConfig.from_json(config.to_json())
    assert again == config
    assert again.assigned() == config.assigned()
    assert again.to_json() == config.to_json()


@settings(max_examples=60, deadline=None)
@given(config=configurations)
def test_the_assigned_values_are_flat_options_again(config: CompilerConfig) -> None:
    again = CompilerConfig.from_options(config.assigned())
    assert again.assigned() == config.assigned()


def values_of(config: CompilerConfig) -> list[tuple[str, type, Any]]:
    """Every value with its type, compared by Python's own equality; shares nothing with the digest."""
    tree = config.to_dict()
    tree.pop("$set")
    preset = tree.pop("$preset", None)

    def walk(prefix: str, value: Any) -> list[tuple[str, type, Any]]:
        if isinstance(value, dict):
            return [pair for key in sorted(value) for pair in walk(f"{prefix}.{key}", value[key])] + [
                (prefix, dict, None)
            ]
        return [(prefix, type(value), value)]

    return [*walk("", tree), ("$preset", str, preset)]


@settings(max_examples=100, deadline=None)
@given(first=assignments, second=assignments, data=st.data())
def test_digests_are_equal_exactly_when_configurations_are(
    first: list[tuple[str, Any]], second: list[tuple[str, Any]], data: st.DataObject
) -> None:
    one = configuration(first)
    other = configuration(data.draw(st.sampled_from([second, first, list(reversed(first))])))
    same = values_of(one) == values_of(other)
    assert (one == other) == same
    assert (one.digest == other.digest) == same


@settings(max_examples=100, deadline=None)
@given(config=configurations)
def test_resolving_is_stable_and_a_second_time_changes_nothing(config: CompilerConfig) -> None:
    first = resolve(config)
    assert resolve(config) == first
    assert resolve(config).notices == first.notices
    for notice in first.notices:
        assert notice.effect in ("ignored", "overridden", "refused")


@settings(max_examples=100, deadline=None)
@given(config=configurations)
def test_a_value_that_was_asked_for_comes_through_or_has_a_notice(config: CompilerConfig) -> None:
    resolved = resolve(config)
    told = {notice.option for notice in resolved.notices}
    for path, value in config.assigned().items():
        holder: Any = resolved
        for part in path.split("."):
            holder = getattr(holder, part)
        assert holder == value or path in told
