"""Settings: fixed, complete, explained, and refused as a whole when something is refused."""

from __future__ import annotations

import copy
import io
import logging
import pickle
from typing import Any

import pytest

from air_config import (
    OPTIONS,
    CompilerConfig,
    Context,
    FrozenSettings,
    RefusedOption,
    WrongType,
    _settings,
    resolve,
)
from air_config._notice import Notice
from air_config._tree import value_at


@pytest.mark.parametrize("path", OPTIONS)
def test_settings_have_every_path_of_the_tree(path: str) -> None:
    assert value_at(resolve(), path) == OPTIONS[path].default or resolve()._quiet[path]


@pytest.mark.parametrize("path", OPTIONS)
def test_settings_cannot_be_assigned(path: str) -> None:
    settings = resolve()
    holder: Any = settings
    *outer, name = path.split(".")
    for part in outer:
        holder = getattr(holder, part)
    with pytest.raises(FrozenSettings):
        setattr(holder, name, OPTIONS[path].default)
    with pytest.raises(FrozenSettings):
        delattr(holder, name)


@pytest.mark.parametrize("name", ["notices", "digest", "debug", "anything"])
def test_nothing_else_of_settings_can_be_assigned_either(name: str) -> None:
    with pytest.raises(FrozenSettings):
        setattr(resolve(), name, ())


def test_the_digest_is_of_the_effective_values() -> None:
    config = CompilerConfig()
    config.ge_config.oo_level = "O3"
    assert resolve(config).digest == resolve().digest
    config.ge_config.oo_level = "O1"
    assert resolve(config).digest != resolve().digest
    assert resolve(config, Context(device="cpu")).digest == resolve(None, Context(device="cpu")).digest


def test_settings_compare_and_hash_by_value() -> None:
    assert resolve() == resolve()
    assert len({resolve(), resolve()}) == 1
    assert resolve() != resolve(CompilerConfig.preset("checked"))
    assert resolve() != 3


def test_settings_copy_as_themselves_and_pickle() -> None:
    config = CompilerConfig.preset("checked")
    config.ge_config.oo_level = "O1"
    config.experimental_config.aclgraph._super_kernel_debug_options = {"debug_sync_all": 1}
    settings = resolve(config)
    assert copy.copy(settings) is settings
    assert copy.deepcopy(settings) is settings
    again = pickle.loads(pickle.dumps(settings))
    assert again == settings
    assert again.notices == settings.notices
    assert again.origin("air.sync") == settings.origin("air.sync")
    with pytest.raises(FrozenSettings):
        again.debug.run_eagerly = True


def test_check_returns_the_settings_or_raises_all_refusals_at_once() -> None:
    assert resolve().check().mode == "max-autotune"
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
    config.experimental_config.aclgraph._super_kernel_optimize = True
    settings = resolve(config, Context(device="cpu"))
    assert settings.experimental_config.aclgraph._aclnn_static_shape_kernel is False
    assert [notice.rule for notice in settings.refusals] == [
        "static-kernel-needs-npu",
        "super-kernel-needs-npu",
    ]
    with pytest.raises(RefusedOption) as caught:
        settings.check()
    assert caught.value.refusals == settings.refusals
    assert "static-kernel-needs-npu" in str(caught.value)
    assert "super-kernel-needs-npu" in str(caught.value)


def test_a_notice_reads_as_a_sentence_with_its_source() -> None:
    config = CompilerConfig()
    config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
    (notice,) = resolve(config).notices
    assert str(notice) == (
        "experimental_config.aclgraph._aclnn_static_shape_kernel=True (explicit) is ignored: static kernels belong "
        "to reduce-overhead; the graph engine compiles static graphs by itself [static-kernels-need-reduce-overhead; "
        "TorchAir guide, static kernel compilation: constraints]"
    )


def test_notices_that_were_logged_are_forgotten_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged: dict[str, None] = {}
    monkeypatch.setattr(_settings, "_LOGGED", logged)
    monkeypatch.setattr(_settings, "_LOGGED_LIMIT", 3)
    for number in range(10):
        _settings._log(
            Notice("debug.graph_dump", "ignored", "a rule", "a page", "why", number, None, "here", True)
        )
    assert [text.split()[0] for text in logged] == [f"debug.graph_dump={number}" for number in (7, 8, 9)]


def test_what_was_asked_for_is_logged_as_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    config = CompilerConfig()
    config.debug.aclgraph.static_capture_size_limit = 987654
    with caplog.at_level(logging.INFO, "air_config"):
        resolve(config)
        resolve(config)
    records = [record for record in caplog.records if "987654" in record.getMessage()]
    assert [record.levelname for record in records] == ["WARNING"]


def test_settings_are_not_a_configuration() -> None:
    with pytest.raises(WrongType, match="resolved already"):
        resolve(resolve())


def test_the_table_says_which_rule_put_a_default_out_of_action() -> None:
    out = io.StringIO()
    resolve().show(everything=False, file=out)
    (line,) = [
        each for each in out.getvalue().splitlines() if each.startswith("debug.aclgraph.remove_cat_ops")
    ]
    assert "out of action by aclgraph-options-in-max-autotune" in line


def test_settings_go_to_a_nested_dict() -> None:
    tree = resolve(CompilerConfig.preset("checked")).to_dict()
    assert tree["air"]["outputs"] == "guarded"
    assert tree["debug"]["aclgraph"]["clone_input"] is True


def test_resolving_nothing_gives_the_defaults() -> None:
    assert resolve() == resolve(CompilerConfig(), Context())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (({"mode": "reduce-overhead"},), r"CompilerConfig\.from_options makes one of a dict"),
        ((CompilerConfig(), {"device": "npu"}), r"an air_config\.Context"),
    ],
)
def test_what_is_no_configuration_and_no_context_is_a_wrong_type(given: Any, told: str) -> None:
    with pytest.raises(WrongType, match=told):
        resolve(*given)
