"""What is ignored is said, in one notice for what the user asked for; nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from air_config import OPTIONS, CompilerConfig, Context, resolve

INPLACEABLE = "debug.aclgraph.disable_reinplace_inplaceable_ops_pass"
Another = Callable[[str], Any]


def test_ignoring_a_default_is_not_reported_to_a_user_who_asked_for_nothing() -> None:
    for mode in ("max-autotune", "reduce-overhead", "npugraph_ex"):
        for device in ("npu", "cpu"):
            config = CompilerConfig()
            config.mode = mode
            assert resolve(config, Context(device=device)).notices == ()


@pytest.mark.parametrize(
    ("first", "others"),
    [
        (
            "debug.data_dump.type",
            ("debug.fx_summary.type", "debug.graph_dump.type", "dump_config.enable_dump"),
        ),
        ("debug.fx_summary.type", ("debug.graph_dump.type", "dump_config.enable_dump")),
    ],
)
def test_a_dump_that_ends_the_compilation_to_ascend_ir_says_which_other_files_are_not_written(
    first: str, others: tuple[str, ...], another: Another
) -> None:
    config = CompilerConfig.from_options({path: another(path) for path in (first, *others)})
    notices = resolve(config, Context(device="cpu")).notices
    assert [notice.option for notice in notices] == sorted(others, key=list(OPTIONS).index)
    assert {notice.effect for notice in notices} == {"ignored"}


@pytest.mark.parametrize(
    "around",
    [
        {"debug.run_eagerly": True},
        {"debug.data_dump.type": "npy"},
        {"dump_config.enable_dump": True, "dump_config.data_dump_stage": "original"},
        {"mode": "npugraph_ex", "debug.run_eagerly": True},
    ],
)
def test_products_side_by_side_are_ignored_with_a_notice_where_nothing_is_captured(
    around: dict[str, Any],
) -> None:
    options = {"mode": "reduce-overhead", "air.products_side_by_side": True, **around}
    (notice,) = resolve(CompilerConfig.from_options(options), Context(device="cuda")).notices
    assert (notice.option, notice.effect) == ("air.products_side_by_side", "ignored")


def test_the_switch_of_exports_that_is_ignored_changes_nothing_else() -> None:
    settings = resolve(CompilerConfig.from_options({"export.export_mode": True}), Context(gears=True))
    (notice,) = settings.notices
    assert (notice.option, notice.rule) == ("export.export_mode", "not-in-this-version")
    assert not settings.experimental_config.enable_ref_data


def test_a_configuration_of_the_device_s_dump_is_ignored_with_a_notice_where_the_reference_engine_runs(
    another: Another,
) -> None:
    path = "dump_config.dump_config_path"
    options = {path: another(path)}
    (notice,) = resolve(CompilerConfig.from_options(options), Context(device="cpu")).notices
    assert (notice.option, notice.rule) == (path, "ge-options-need-ge")
    assert resolve(CompilerConfig.from_options(options), Context(device="npu")).notices == ()


def test_asking_for_a_default_that_would_do_something_is_reported_where_it_does_not() -> None:
    config = CompilerConfig()
    config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass = False
    (notice,) = resolve(config).notices
    assert (notice.option, notice.effect, notice.asked) == (INPLACEABLE, "ignored", True)


def test_asking_for_a_default_that_does_nothing_is_not_reported() -> None:
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    config.aoe_config.aoe_mode = None
    assert resolve(config).notices == ()
