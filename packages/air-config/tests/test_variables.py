"""Numbers and switches of the environment: nonsense is refused with the variable, the value and what is allowed."""

from __future__ import annotations

import pytest

from air_config import CompilerConfig, Context, errors, resolve
from air_config.variables import number, switch


@pytest.mark.parametrize("text", ["", "  "])
def test_a_variable_that_is_not_set_or_empty_leaves_the_default(text: str) -> None:
    assert number("RANK", 7, environment={"RANK": text}) == 7
    assert number("RANK", 7, environment={}) == 7
    assert switch("FLAG", True, environment={"FLAG": text})


def test_numbers_and_switches_are_read() -> None:
    assert number("RANK", 7, environment={"RANK": " 3 "}) == 3
    assert [switch("FLAG", True, environment={"FLAG": text}) for text in ("0", "off", "1", "yes")] == [
        False, False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["../../x", "-1", "1.5", "nan", "\u00b2", "99999999999999999999", "1 2", "0x10"]
)
def test_a_rank_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(errors.WrongValue, match="'RANK'") as refused:
        number("RANK", 0, environment={"RANK": text})
    assert text in str(refused.value)
    assert "an int from 0 to 2147483647" in str(refused.value)


def test_a_switch_that_is_neither_on_nor_off_is_refused_by_name() -> None:
    with pytest.raises(errors.WrongValue, match=r"(?s)'FLAG'.*'maybe'"):
        switch("FLAG", True, environment={"FLAG": "maybe"})


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("AIR_GE_CONFIG_MULTISTREAM_PARALLEL_MODE", "nonsense"),
        ("AIR_GE_CONFIG_MULTISTREAM_PARALLEL_MODE", "LoadBalance:65"),
        ("AIR_GE_CONFIG_MULTISTREAM_PARALLEL_MODE", "MainStream:0"),
        ("AIR_GE_CONFIG_AICORE_NUM", "0|0"),
        ("AIR_GE_CONFIG_AICORE_NUM", "99999999999|1"),
        ("AIR_DUMP_CONFIG_DUMP_STEP", "99999999999999999999"),
        ("AIR_DUMP_CONFIG_DUMP_STEP", "-1"),
        ("AIR_STATIC_KERNEL_TIME_LIMIT_S", "1e+300"),
        ("AIR_STATIC_KERNEL_TIME_LIMIT_S", "nan"),
        ("AIR_STATIC_KERNEL_TIME_LIMIT_S", "-5"),
        ("AIR_STATIC_KERNEL_JOBS", "100000"),
        ("AIR_STATIC_KERNEL_LIMIT_BYTES", "99999999999999999999"),
        ("AIR_WARMUP", "True"),
        ("AIR_DEBUG_ACLGRAPH_STATIC_CAPTURE_SIZE_LIMIT", "10" * 20),
        ("AIR_EXPORT_EXPORT_NAME", "../x"),
    ],
)
def test_nonsense_in_a_variable_of_an_option_is_refused_by_name(variable: str, text: str) -> None:
    with pytest.raises(errors.ConfigError, match=variable) as refused:
        resolve(CompilerConfig(), Context(device="cpu", env={variable: text}))
    assert text in str(refused.value)
    assert "allowed" in str(refused.value)


@pytest.mark.parametrize("mode", ["cv", "LoadBalance", "LoadBalance:8", "MainStream:64"])
def test_the_modes_of_the_graph_engine_are_taken(mode: str) -> None:
    config = CompilerConfig()
    config.ge_config.multistream_parallel_mode = mode
    with pytest.raises(errors.WrongValue, match="LoadBalance:8"):
        config.ge_config.multistream_parallel_mode = mode + "x"
