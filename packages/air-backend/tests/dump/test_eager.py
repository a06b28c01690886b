"""`debug.data_dump`: npy files of an eager run, in both modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, fx

from air_backend import CompilerConfig, explain, get_npu_backend
from air_backend.dump import data_dump


def model(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x @ y).to(torch.bfloat16)


def compiled(path: Path, function: Any = model, mode: str = "reduce-overhead", keep: Any = None) -> Any:
    config = CompilerConfig()
    config.set("mode", mode)
    config.debug.data_dump.type = "npy"
    config.debug.data_dump.path = str(path)
    config.debug.data_dump.filter = keep
    return torch.compile(function, backend=get_npu_backend(compiler_config=config))


def arrays(path: Path) -> dict[str, Any]:
    """What is in a folder, by node, operator, side and number; the time is left out."""
    return {file.name.rsplit(".", 2)[0]: np.load(file) for file in sorted(path.glob("*.npy"))}


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_A55_G09_each_call_writes_the_inputs_and_outputs_of_each_operator(tmp_path: Path, mode: str) -> None:
    run = compiled(tmp_path, mode=mode)
    calls = [(torch.randn(2, 3), torch.randn(3, 4)) for _ in range(2)]
    with torch.no_grad():
        results = [run(*inputs) for inputs in calls]
    (graph,) = (tmp_path / "worldsize1_global_rank0").iterdir()
    for number, ((x, y), result) in enumerate(zip(calls, results, strict=True)):
        found = arrays(graph / str(number))
        torch.testing.assert_close(result, model(x, y))
        np.testing.assert_array_equal(found["mm-aten.mm.default.INPUT.0"], x.numpy())
        np.testing.assert_array_equal(found["mm-aten.mm.default.INPUT.1"], y.numpy())
        relu = (
            "relu-aten.relu.default.OUTPUT.0"
            if mode == "max-autotune"
            else "relu-aten.relu_.default.OUTPUT.0"
        )
        np.testing.assert_array_equal(found[relu], (x @ y).relu().numpy())
        (cast,) = (array for name, array in found.items() if "copy" in name and "OUTPUT" in name)
        np.testing.assert_array_equal(cast, result.float().numpy())  # numpy has no bfloat16


def test_A55_G09_the_filter_leaves_nodes_out(tmp_path: Path) -> None:
    def only_relu(node: fx.Node) -> fx.Node | None:
        return node if "relu" in node.name else None

    with torch.no_grad():
        compiled(tmp_path, keep=only_relu)(torch.randn(2, 3), torch.randn(3, 4))
    names = {file.name.partition("-")[0] for file in tmp_path.rglob("*.npy")}
    assert names == {"relu"}


def test_A55_a_list_of_tensors_has_two_numbers(tmp_path: Path) -> None:
    with torch.no_grad():
        compiled(tmp_path, lambda x: torch.cat([x, x + 1]))(torch.randn(2))
    assert {"cat-aten.cat.default.INPUT.0.0", "cat-aten.cat.default.INPUT.0.1"} <= set(
        arrays(next(tmp_path.rglob("0")))
    )


def test_G11_a_marked_block_narrows_the_dump(tmp_path: Path) -> None:
    def marked(x: Tensor) -> Tensor:
        y = torch.sin(x)
        with data_dump():
            y = torch.cos(y)
        return torch.tan(y)

    with torch.no_grad():
        compiled(tmp_path, marked)(torch.randn(4))
    assert {file.name.partition("-")[0] for file in tmp_path.rglob("*.npy")} == {"cos"}


def test_the_report_says_that_the_graph_is_dumped_and_where(tmp_path: Path) -> None:
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    config.debug.data_dump.type = "npy"
    config.debug.data_dump.path = str(tmp_path)
    with torch.no_grad():
        report = explain(model, torch.randn(2, 3), torch.randn(3, 4), compiler_config=config)
    (graph,) = report.data["graphs"]
    assert graph["executor"] == "data_dump"
    assert str(tmp_path) in graph["data_dump"]["folder"]
