"""`dump_config` in a captured graph: every replay writes the tensors it computed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx

from air_backend import CompilerConfig, get_npu_backend
from air_backend.dump import data_dump, insert_saves
from air_backend.errors import DumpUnsupported


def model(x: Tensor, cache: Tensor) -> Tensor:
    y = torch.relu(x + 1)
    cache.copy_(y)
    return (y * 2).sum(-1)


def compiled(path: Path, function: Any = model, stage: str = "optimized", **options: Any) -> Any:
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    config.dump_config.enable_dump = True
    config.dump_config.dump_path = str(path)
    config.set("dump_config.data_dump_stage", stage)
    for name, value in options.items():
        config.set(name.replace("__", "."), value)
    return torch.compile(function, backend=get_npu_backend(compiler_config=config))


@pytest.mark.parametrize("options", [{}, {"debug__data_dump__type": "npy", "debug__data_dump__path": "d"}])
def test_a_relative_folder_is_that_of_the_compilation_wherever_the_program_goes(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "elsewhere").mkdir()
    run = compiled(Path("d"), lambda x: x + 1, **options)
    run(torch.ones(3))
    before = len(list((tmp_path / "d").rglob("*.*")))
    monkeypatch.chdir(tmp_path / "elsewhere")
    run(torch.ones(3))
    assert len(list((tmp_path / "d").rglob("*.*"))) == 2 * before
    assert not list((tmp_path / "elsewhere").iterdir())


def saved(path: Path, node: str) -> list[Tensor]:
    """The files of one node, in the order of the calls."""
    files = sorted(path.rglob(f"{node}_device_*.pt"), key=lambda p: int(p.stem.rpartition("_")[2]))
    return [torch.load(file).cpu() for file in files]


def check(path: Path, device: str) -> None:
    run = compiled(path)
    inputs = [torch.randn(4, 4) for _ in range(4)]
    cache = torch.zeros(4, 4, device=device)
    with torch.no_grad():
        for x in inputs:
            result = run(x.to(device), cache)
            torch.testing.assert_close(result.cpu(), (torch.relu(x + 1) * 2).sum(-1))
    if device != "cpu":
        torch.accelerator.synchronize()
    expectations: dict[str, Callable[[Tensor], Tensor]] = {
        "mul": lambda x: torch.relu(x + 1) * 2,
        "sum_1": lambda x: (torch.relu(x + 1) * 2).sum(-1),
    }
    for node, expected in expectations.items():
        found = saved(path, node)
        assert len(found) == len(inputs)
        for x, tensor in zip(inputs, found, strict=True):
            torch.testing.assert_close(tensor, expected(x))


def test_A54_every_call_writes_what_it_computed(tmp_path: Path) -> None:
    check(tmp_path, "cpu")
    folder = tmp_path / "worldsize1_global_rank0"
    assert (folder / "arg0_1_device_cpu_0.pt").is_file()  # where TorchAir's are
    assert not any(file.is_dir() for file in folder.iterdir())


def test_A54_a_second_graph_in_the_same_folder_does_not_write_under_the_names_of_the_first(
    tmp_path: Path,
) -> None:
    x, cache = torch.randn(4, 4), torch.zeros(4, 4)
    with torch.no_grad():
        for _ in range(2):
            torch._dynamo.reset()
            compiled(tmp_path)(x, cache)
    plain = [file.name for file in (tmp_path / "worldsize1_global_rank0").glob("mul*.pt")]
    assert len(plain) == 2
    assert "mul_device_cpu_0.pt" in plain
    assert any(name.startswith("mul.graph_") and name.endswith("_device_cpu_0.pt") for name in plain)


@pytest.mark.npu("only torch_npu launches a callback of the host in a graph")
def test_A54_a_replay_on_an_npu_writes_through_a_host_callback(tmp_path: Path) -> None:
    check(tmp_path, "npu")


def test_A54_the_original_graph_is_dumped_without_passes_and_without_capture(tmp_path: Path) -> None:
    run = compiled(tmp_path, stage="original")
    with torch.no_grad():
        for _ in range(3):
            run(torch.randn(4, 4), torch.zeros(4, 4))
    names = {file.name.partition("_device")[0] for file in tmp_path.rglob("*.pt")}
    assert {"add", "relu", "mul", "sum_1", "copy_"} <= names
    assert len(saved(tmp_path, "mul")) == 3


def test_A54_streams_do_not_change_what_is_written(tmp_path: Path) -> None:
    import air_backend as tng

    def two_streams(x: Tensor) -> Tensor:
        y = torch.sin(x)
        with tng.scope.npu_stream_switch("1"):
            z = torch.cos(y)
        return y + z

    x = torch.randn(4)
    with torch.no_grad():
        compiled(tmp_path, two_streams, air__sync="auto")(x)
    torch.testing.assert_close(saved(tmp_path, "cos")[0], x.sin().cos())


def test_G11_a_marked_block_narrows_the_dump_of_a_replay(tmp_path: Path) -> None:
    def marked(x: Tensor) -> Tensor:
        y = torch.sin(x)
        with data_dump():
            y = torch.cos(y)
        return torch.tan(y)

    with torch.no_grad():
        compiled(tmp_path, marked)(torch.randn(4))
    assert {file.name.partition("_device")[0] for file in tmp_path.rglob("*.pt")} == {"cos"}


def test_a_device_whose_replays_cannot_call_the_host_is_refused(tmp_path: Path) -> None:
    gm = fx.symbolic_trace(lambda x: x + 1)
    with pytest.raises(DumpUnsupported, match=r"data_dump.type = 'npy'"):
        insert_saves(gm, torch.device("cuda"), str(tmp_path), "graph_0")


def positive_rows(x: Tensor) -> Tensor:
    return x[((x * 2).sum(1) > 0).nonzero().squeeze(1)] + 1


def test_a_graph_that_is_cut_is_dumped_whole(tmp_path: Path) -> None:
    run = compiled(tmp_path, positive_rows)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(1, 4):
            x = torch.eye(3) * number
            assert torch.equal(run(x), positive_rows(x))
    assert [tensor.max().item() for tensor in saved(tmp_path, "mul")] == [2.0, 4.0, 6.0]
    assert [tensor.tolist() for tensor in saved(tmp_path, "nonzero")] == [[[0], [1], [2]]] * 3
    assert len([*tmp_path.rglob("nonzero*.pt")]) == 3  # the piece that reads it does not write it again


def test_G11_a_marked_block_narrows_the_dump_of_every_part_of_a_graph(tmp_path: Path) -> None:
    def marked(x: Tensor) -> Tensor:
        with data_dump():
            chosen = (x.sum(1) > 0).nonzero()
        return x[chosen.squeeze(1)] + 1

    run = compiled(tmp_path, marked)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch.equal(run(torch.eye(3)), torch.eye(3) + 1)
    assert {file.name.partition("_device")[0] for file in tmp_path.rglob("*.pt")} == {
        "sum_1",
        "gt",
        "nonzero",
    }
