"""Presets < environment < patch < explicit, with the origin of every value and a word about what lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping

import pytest

from air_config import (
    CompilerConfig,
    Context,
    ProfilerState,
    UnknownOption,
    WrongType,
    WrongValue,
    patch,
    resolve,
)

LIMIT = "debug.aclgraph.static_capture_size_limit"
LIMIT_VARIABLE = "AIR_DEBUG_ACLGRAPH_STATIC_CAPTURE_SIZE_LIMIT"


def limit(config: CompilerConfig, env: Mapping[str, str] | None = None) -> int:
    config.set("mode", "reduce-overhead")
    return resolve(config, Context(env=env or {})).debug.aclgraph.static_capture_size_limit


def test_each_layer_goes_before_the_one_below() -> None:
    env = {LIMIT_VARIABLE: "2"}
    config = CompilerConfig()
    assert limit(config) == 64
    assert limit(config, env) == 2
    with patch({LIMIT: 3}):
        assert limit(config, env) == 3
        config.set(LIMIT, 4)
        assert limit(config, env) == 4
    assert limit(config, env) == 4
    del config.debug.aclgraph.static_capture_size_limit
    assert limit(config, env) == 2


def test_assigning_the_default_is_still_an_assignment() -> None:
    config = CompilerConfig()
    config.set(LIMIT, 64)
    assert limit(config, {LIMIT_VARIABLE: "2"}) == 64


def test_the_layered_value_of_an_option_is_that_of_the_highest_layer_before_the_rules() -> None:
    context = Context(env={"AIR_OUTPUTS": "clone", LIMIT_VARIABLE: "2"})
    config = CompilerConfig.preset("checked")
    assert (config.mode, config.layered("mode")) == ("max-autotune", "reduce-overhead")
    assert config.layered("air.outputs", context) == "clone"
    with patch({LIMIT: 3}):
        assert config.layered(LIMIT, context) == 3
        config.set(LIMIT, 4)
        assert config.layered(LIMIT, context) == 4
    assert CompilerConfig().layered(LIMIT, context) == 2, "a rule puts it out of action in max-autotune"
    with pytest.raises(UnknownOption):
        config.layered("air.output")


def test_the_environment_goes_before_a_preset() -> None:
    context = Context(env={"AIR_OUTPUTS": "clone"})
    assert resolve(CompilerConfig.preset("checked"), context).air.outputs == "clone"


def test_the_origin_of_every_layer_has_a_name() -> None:
    config = CompilerConfig.preset("checked")
    context = Context(env={LIMIT_VARIABLE: "2"})
    config.air.warmup = 3
    with patch(clone_input=False):
        told = {
            path: str(config.origin(path, context))
            for path in (LIMIT, "air.verify", "air.warmup", "air.engine")
        }
        patched = config.origin("debug.aclgraph.clone_input", context)
    assert told == {
        LIMIT: f"environment {LIMIT_VARIABLE}",
        "air.verify": "preset checked",
        "air.warmup": "explicit",
        "air.engine": "default",
    }
    assert (str(patched), patched.asked) == ("patch", True)
    with pytest.raises(UnknownOption):
        config.origin("air.engin")


def test_what_is_set_and_loses_is_reported() -> None:
    config = CompilerConfig()
    config.set("mode", "reduce-overhead")
    config.set(LIMIT, 4)
    (notice,) = resolve(config, Context(env={LIMIT_VARIABLE: "2"})).notices
    assert (notice.option, notice.effect, notice.rule) == (LIMIT, "overridden", "precedence")
    assert (notice.given, notice.used) == (2, 4)


def test_what_is_set_twice_to_the_same_value_is_not_reported() -> None:
    config = CompilerConfig()
    config.set("mode", "reduce-overhead")
    config.set(LIMIT, 2)
    assert resolve(config, Context(env={LIMIT_VARIABLE: "2"})).notices == ()


def test_a_variable_that_is_no_option_is_reported_with_the_nearest() -> None:
    (notice,) = resolve(CompilerConfig(), Context(env={"AIR_ENGIN": "atc"})).notices
    assert (notice.option, notice.effect, notice.rule) == ("AIR_ENGIN", "ignored", "unknown-variable")
    assert "AIR_ENGINE" in notice.reason


def test_variables_of_the_simulator_and_of_others_are_left_alone() -> None:
    env = {"AIR_SIM_TRACE": "1", "AIR_NATIVE_ADDRESSES": "0", "AIRFLOW_HOME": "x", "PATH": "y"}
    assert resolve(CompilerConfig(), Context(env=env)).notices == ()


def test_a_wrong_value_in_the_environment_names_the_variable() -> None:
    with pytest.raises(WrongValue, match="environment variable AIR_MODE"):
        resolve(CompilerConfig(), Context(env={"AIR_MODE": "fast"}))


def test_the_environment_of_the_process_is_read_when_the_context_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIR_SYNC", "error")
    monkeypatch.setenv("AIR_MODE", "reduce-overhead")
    assert resolve().air.sync == "error"
    before = Context()
    monkeypatch.setenv("AIR_SYNC", "auto")
    assert resolve(context=before).air.sync == "error"


def test_patches_nest_and_end() -> None:
    config = CompilerConfig()
    with patch(capture_limit=1):
        with patch({"capture_limit": 2, "sync": "off"}):
            assert limit(config) == 2
        assert limit(config) == 1
        assert resolve(config).air.sync == "check"
    assert limit(config) == 64


def test_a_patch_ends_when_an_exception_leaves_it() -> None:
    with pytest.raises(KeyError), patch(capture_limit=1):
        raise KeyError
    assert limit(CompilerConfig()) == 64


def test_a_patch_is_also_a_decorator() -> None:
    @patch(capture_limit=5)
    def inside() -> int:
        return limit(CompilerConfig())

    assert [inside(), inside(), limit(CompilerConfig())] == [5, 5, 64]


def test_a_patch_is_checked_where_it_is_written() -> None:
    with pytest.raises(UnknownOption):
        patch(captur_limit=1)
    with pytest.raises(WrongType):
        patch({"capture_limit": True})


def test_a_patch_acts_in_its_thread_only() -> None:
    seen: list[int] = []
    with patch(capture_limit=1):
        thread = threading.Thread(target=lambda: seen.append(limit(CompilerConfig())))
        thread.start()
        thread.join()
    assert seen == [64]


def test_patches_of_concurrent_tasks_do_not_mix() -> None:
    async def task(value: int) -> int:
        with patch(capture_limit=value):
            await asyncio.sleep(0)
            return limit(CompilerConfig())

    async def all_of_them() -> list[int]:
        return list(await asyncio.gather(*(task(value) for value in range(1, 9))))

    assert asyncio.run(all_of_them()) == list(range(1, 9))


def test_the_method_of_a_configuration_is_the_same_patch() -> None:
    config = CompilerConfig()
    with config.patch(capture_limit=6):
        assert limit(config) == 6


def test_resolving_does_not_change_the_configuration() -> None:
    config = CompilerConfig()
    before = config.to_dict()
    resolve(config, Context(env={"AIR_MODE": "reduce-overhead"}, profiler=ProfilerState(), multi_stream=True))
    assert config.to_dict() == before
