"""`debug.fx_summary`: which operators of a graph reach Ascend IR, and how."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from air_backend import CompilerConfig, explain

LIBRARY = torch.library.Library("air_backend_summary", "FRAGMENT")
LIBRARY.define("unheard_of(Tensor x) -> Tensor")
LIBRARY.impl("unheard_of", lambda x: x * 3, "CPU")
LIBRARY.impl("unheard_of", torch.empty_like, "Meta")


def model(x: Tensor, y: Tensor) -> Tensor:
    total = (x @ y) @ y
    unheard: Tensor = torch.ops.air_backend_summary.unheard_of(total)
    result: Tensor = torch.special.i0e(unheard)
    return result


def rows(path: Path) -> dict[str, dict[str, str]]:
    (file,) = path.glob("summary_*.csv")
    with file.open() as opened:
        return {row["operator"]: row for row in csv.DictReader(opened)}


def report(path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    monkeypatch.chdir(path)
    config = CompilerConfig()
    config.mode = "max-autotune"
    config.debug.fx_summary.type = "csv"
    for name, value in options.items():
        config.set(name.replace("__", "."), value)
    x, y = torch.randn(2, 3), torch.randn(3, 3)
    with torch.no_grad():
        found = explain(model, x, y, compiler_config=config)
    (graph,) = found.data["graphs"]
    return graph


def test_G12_the_table_says_what_is_supported_how_and_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = report(tmp_path, monkeypatch)
    assert graph["executor"] == "fx_summary"  # nothing was compiled: the graph ran eagerly
    found = rows(tmp_path)
    assert found["aten.mm.default"]["support"] == "yes"
    assert found["aten.mm.default"]["way"] == "converter"
    assert found["aten.mm.default"]["calls"] == "2"
    assert found["aten.mm.default"]["inputs"] == "float32[2, 3] x2; float32[3, 3] x2"
    unheard = found["air_backend_summary.unheard_of.default"]
    assert (unheard["support"], unheard["way"]) == ("no", "missing")
    assert "neither a converter nor a decomposition" in unheard["reason"]
    assert "unheard_of(total)" in unheard["lines"]
    assert next(iter(found)) in {
        name for name, row in found.items() if row["support"] == "no"
    }  # these come first


def test_G12_without_skip_compile_the_graph_is_compiled_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = report(tmp_path, monkeypatch, debug__fx_summary__skip_compile=False, air__unsupported="eager")
    assert graph["executor"] == "max-autotune"
    assert rows(tmp_path)["aten.mm.default"]["support"] == "yes"
    assert "air_backend_summary.unheard_of.default" in {each["operator"] for each in graph["eager"]}
