"""What the tests of air-config share: a clean environment, and a value other than the default for any option."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from air_config import OPTIONS

SPECIAL: dict[str, Any] = {
    "dump_config.dump_step": "0|3-5",
    "dump_config.dump_layer": "Mul_1 Add1",
    "ge_config.aicore_num": "24|48",
    "ge_config.multistream_parallel_mode": "cv",
    "ge_config.optimization_switch": "PassA:on;PassB:off",
    "experimental_config.aclgraph._super_kernel_optimize_options": {"preload_code": 1},
    "experimental_config.aclgraph._super_kernel_debug_options": {"debug_sync_all": 1},
}
BY_KIND: dict[str, Any] = {
    "str": "name",
    "int": 7,
    "float": 2.5,
    "list[int]": [1, 2],
    "list[str]": ["Add", "Mul"],
    "pool": (0, 3),
    "callable": print,
}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.startswith("AIR_") or name == "LOCAL_WORLD_SIZE":
            monkeypatch.delenv(name)


@pytest.fixture
def another(tmp_path: Path) -> Callable[[str], Any]:
    """A function from an option's path to a value it takes that is not its default."""
    (tmp_path / "file.json").write_text("{}")

    def value(path: str) -> Any:
        row = OPTIONS[path]
        kind = row.kind.name.removesuffix(" or None")
        if path in SPECIAL:
            return SPECIAL[path]
        if kind == "bool":
            return not row.default
        if kind == "path":
            return str(tmp_path / "file.json" if "file" in row.kind.allowed else tmp_path)
        if row.kind.choices:
            others = [each for each in row.kind.choices if each not in (row.default, None)]
            return others[0] if others else row.kind.choices[0]
        return BY_KIND[kind]

    return value
