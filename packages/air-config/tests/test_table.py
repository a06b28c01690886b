"""The table: aligned, with origins, notices and what was put out of action."""

from __future__ import annotations

from air_config import CompilerConfig, Context, Origin, resolve
from air_config._table import table


def test_columns_are_aligned() -> None:
    text = resolve(CompilerConfig.preset("checked")).table(everything=False)
    head, rule, *rows = text.splitlines()
    value, origin = head.index("value"), head.index("origin")
    assert set(rule) == {"-"}
    for row in rows:
        assert row[value - 2 : value] == "  "
        assert row[value] != " "
        assert row[origin] != " "


def test_only_what_differs_is_shown_on_request() -> None:
    values, origins = (
        {"air.warmup": 1, "air.sync": "off"},
        {"air.warmup": Origin("default"), "air.sync": Origin("patch")},
    )
    assert "air.warmup" in table(values, origins)
    short = table(values, origins, everything=False)
    assert "air.warmup" not in short
    assert "patch" in short


def test_notices_follow_the_table_and_mark_their_rows() -> None:
    config = CompilerConfig.from_options({"mode": "reduce-overhead", "super_kernel_optimize": True})
    text = config.table(Context(device="cpu"))
    (row,) = [
        line
        for line in text.splitlines()
        if line.startswith("experimental_config.aclgraph._super_kernel_optimize ")
    ]
    assert row.endswith("explicit, refused by super-kernel-needs-npu")
    assert (
        "\nnotices\n  experimental_config.aclgraph._super_kernel_optimize=True (explicit) is refused" in text
    )
