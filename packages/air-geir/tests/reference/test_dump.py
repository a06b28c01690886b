"""`dump_config` on the reference engine: what is written is what the operators saw."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from air_config import CompilerConfig, Context, resolve
from air_geir import compile_graph
from air_graph import ranks


def compiled(path: Path, dump_nodes: tuple[str, ...] = (), **options: Any) -> Any:
    def model(x: Tensor, y: Tensor) -> list[Tensor]:
        return [torch.relu(x @ y).to(torch.bfloat16)]

    config = CompilerConfig()
    config.dump_config.enable_dump = True
    config.dump_config.dump_path = str(path)
    for name, value in options.items():
        setattr(config.dump_config, name, value)
    inputs = torch.randn(2, 3), torch.randn(3, 4)
    gm = make_fx(model, tracing_mode="fake")(*inputs)
    settings = resolve(config, Context(device="cpu")).check()
    return compile_graph(gm, inputs, settings=settings, name="g", dump_nodes=dump_nodes)


def files(path: Path, run: int = 0) -> dict[str, Any]:
    found = sorted((path / "g" / str(run)).glob("*.npy"))
    return {
        file.name.split(".")[0] + "." + ".".join(file.name.split(".")[-3:-1]): np.load(file) for file in found
    }


def test_G10_inputs_and_outputs_of_every_operator_are_written_in_every_run(tmp_path: Path) -> None:
    run = compiled(tmp_path)
    for number in range(2):
        x, y = torch.randn(2, 3), torch.randn(3, 4)
        (result,) = run(x, y)
        found = files(tmp_path, number)
        assert set(found) >= {
            "MatMul.input.0",
            "MatMul.input.1",
            "MatMul.output.0",
            "Relu.output.0",
            "Cast.output.0",
        }
        np.testing.assert_array_equal(found["MatMul.input.1"], y.numpy())
        np.testing.assert_allclose(found["MatMul.output.0"], (x @ y).numpy(), rtol=1e-6)
        np.testing.assert_array_equal(found["Cast.output.0"], result.float().numpy())


def test_G10_each_process_of_a_job_writes_into_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(2):
        monkeypatch.setattr(ranks, "rank_and_size", lambda rank=rank: (rank, 2))
        compiled(tmp_path)(torch.full((2, 3), float(rank)), torch.ones(3, 4))
    for rank in range(2):
        found = files(tmp_path / f"worldsize2_global_rank{rank}")
        np.testing.assert_array_equal(found["MatMul.input.0"], np.full((2, 3), rank))
    assert not (tmp_path / "g").exists()


def test_names_that_no_operator_has_are_said_when_the_graph_is_compiled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compiled(tmp_path, dump_layer="Relu")
    assert not caplog.records
    compiled(tmp_path, dump_layer="Reluu")
    (record,) = caplog.records
    assert record.getMessage().startswith("g: nothing is dumped: no operator of the graph has the name")
    assert "Reluu" in record.getMessage()


def test_G10_mode_step_and_layer_narrow_what_is_written(tmp_path: Path) -> None:
    run = compiled(tmp_path, dump_mode="output", dump_step="1|3-4", dump_layer="Relu")
    for _ in range(5):
        run(torch.randn(2, 3), torch.randn(3, 4))
    assert sorted(p.name for p in (tmp_path / "g").iterdir()) == ["1", "3", "4"]
    assert set(files(tmp_path, 3)) == {"Relu.output.0"}


def test_G10_statistics_are_lines_of_a_table(tmp_path: Path) -> None:
    run = compiled(tmp_path, dump_data="stats", dump_mode="output")
    x, y = torch.randn(2, 3), torch.randn(3, 4)
    run(x, y)
    assert not files(tmp_path)
    with (tmp_path / "g" / "0" / "statistics.csv").open() as file:
        lines = {line["type"]: line for line in csv.DictReader(file)}
    assert float(lines["MatMul"]["maximum"]) == pytest.approx((x @ y).max().item())
    assert float(lines["Relu"]["minimum"]) == pytest.approx((x @ y).relu().min().item())


def test_G11_marked_nodes_are_written_beside_the_named_types(tmp_path: Path) -> None:
    run = compiled(tmp_path, dump_nodes=("relu",), dump_layer="Cast", dump_mode="output")
    run(torch.randn(2, 3), torch.randn(3, 4))
    assert set(files(tmp_path)) == {"Relu.output.0", "Cast.output.0"}


def test_nothing_is_written_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    compiled(tmp_path, enable_dump=False)(torch.randn(2, 3), torch.randn(3, 4))
    assert not list(tmp_path.iterdir())
