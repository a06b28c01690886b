"""Engine `atc`: graphs as offline models, what its program is told, and what it cannot be told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from air_config import CompilerConfig, Context, resolve
from air_geir import _engines, compile_graph
from air_geir.engines import Atc, NpuDevice, TorchairExtension, engine_options
from air_geir.engines import _atc as engine
from air_geir.engines._atc import ATC_NAMES, WITHOUT_ATC_NAME
from air_geir.errors import EngineError, EngineUnavailableError, OptionError
from air_geir.ir import DataType, Graph, Placement, TensorDesc, symbol
from air_geir.offline import _atc
from air_geir.program import ArgInput, GraphOutput, Program, SymbolSource

pytest.importorskip("torch_npu")
pytestmark = pytest.mark.npu

SQUARE = TensorDesc(DataType.FLOAT, (4, 4), placement=Placement.DEVICE)


def relu(desc: TensorDesc = SQUARE) -> Program:
    graph = Graph("small")
    graph.output([graph.add("Relu", graph.data("x", desc), outputs=desc)])
    return Program(graph, (ArgInput(0),), (GraphOutput(0),), 1, symbols={"s0": SymbolSource(0, 0)})


def compiled(made: Program | None = None, folder: Path | None = None, **options: Any) -> Any:
    made = made or relu()
    config = CompilerConfig()
    for name, value in options.items():
        config.set(name.replace("__", "."), value)
    settings = resolve(config, Context(device="npu"))
    return Atc().compile(made, replace(engine_options(settings, made, NpuDevice.current()), kept_in=folder))


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "record.jsonl"
    path.touch()
    monkeypatch.setenv("AIR_SIM_GE_RECORD", str(path))
    return path


def calls(record: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in record.read_text().splitlines()]


def test_N16_atc_is_told_what_the_session_is_told_of_a_graph(record: Path) -> None:
    x = torch.randn(4, 4, device="npu")
    options: dict[str, Any] = {"ge_config__oo_level": "O1", "ge_config__enable_single_stream": True}
    torch.testing.assert_close(compiled(**options)((x,), ())[0], x.relu())
    (call,) = calls(record)
    made = relu()
    config = CompilerConfig()
    config.set("ge_config.oo_level", "O1")
    config.set("ge_config.enable_single_stream", True)
    told = engine_options(resolve(config, Context(device="npu")), made, NpuDevice.current())
    session = {**told.session, **told.graph}
    assert {word: session[key] for key, word in ATC_NAMES.items() if key in session} == {
        key: value for key, value in call["options"].items() if key in ATC_NAMES.values()
    }
    assert call["options"]["oo_level"] == "O1"
    assert call["options"]["framework"] == "1"


def test_an_option_that_atc_has_no_word_for_is_an_error_before_anything_is_compiled(record: Path) -> None:
    with pytest.raises(OptionError, match=r"(?s)cannot be told ge\.featureBaseRefreshable = 1.*ge_session"):
        compiled(experimental_config__memory_efficiency=True)
    made = replace(relu(), inputs=(ArgInput(0, parameter=True),))
    with pytest.raises(OptionError, match="frozen_parameter"):
        compiled(made, experimental_config__frozen_parameter=True)
    assert calls(record) == []


def test_what_atc_takes_by_itself_is_what_the_settings_are_by_default() -> None:
    made = relu()
    told = engine_options(resolve(CompilerConfig(), Context(device="npu")), made, NpuDevice.current())
    found = {**told.session, **told.graph}
    assert {key: found.get(key) for key in WITHOUT_ATC_NAME} == WITHOUT_ATC_NAME


OPEN = TensorDesc(DataType.FLOAT, (symbol("s0"), 4), placement=Placement.DEVICE)


def test_a_graph_of_open_sizes_is_an_offline_model_for_each_size_it_meets(record: Path) -> None:
    run = compiled(relu(OPEN))
    for rows, models in ((3, 1), (6, 2), (3, 2)):
        x = torch.randn(rows, 4, device="npu")
        torch.testing.assert_close(run((x,), ())[0], x.relu())
        assert (run.stats()["models"], len(calls(record))) == (models, models)


def test_the_model_called_longest_ago_is_unloaded_for_another_size(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MAX_LOADED", 2)
    run = compiled(relu(OPEN))
    for rows, compilations in ((1, 1), (2, 2), (1, 2), (3, 3), (1, 3), (2, 4)):
        x = torch.randn(rows, 4, device="npu")
        torch.testing.assert_close(run((x,), ())[0], x.relu())
        assert len(calls(record)) == compilations


def test_many_models_of_one_graph_are_no_secret(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine, "WARN_AFTER", 2)
    run = compiled(relu(OPEN))
    for rows, told in ((3, 0), (3, 0), (6, 1), (5, 1)):
        run((torch.randn(rows, 4, device="npu"),), ())
        assert caplog.text.count("pad inputs to a few sizes") == told


def test_sizes_that_the_host_computes_are_constants_of_each_model() -> None:
    def split(x: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        n = rows.shape[0]
        return x.reshape(n, -1).softmax(0) * n, x.new_ones((n, 3))

    example = torch.randn(6, 4, device="npu"), torch.ones(3, device="npu")
    gm = make_fx(split, tracing_mode="symbolic")(*example)
    values = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    run = compile_graph(gm, values, settings=resolve(CompilerConfig(), Context(device="npu")), engine="atc")
    assert run.engine == "atc"
    for rows, parts in ((6, 3), (8, 2), (6, 2), (6, 3)):
        x = torch.randn(rows, 4, device="npu"), torch.ones(parts, device="npu")
        for found, wanted in zip(run(*x), split(*x), strict=True):
            torch.testing.assert_close(found, wanted)


def test_sizes_that_only_values_decide_are_refused_with_their_operator() -> None:
    graph = Graph("places")
    places = TensorDesc(DataType.INT64, (-1, 2), placement=Placement.DEVICE)
    graph.output([graph.add("NonZero", graph.data("x", SQUARE), outputs=places, dtype=DataType.INT64)])
    made = Program(graph, (ArgInput(0),), (GraphOutput(0),), 1)
    with pytest.raises(
        EngineError, match=r"(?s)engine atc .*only values decide those of NonZero.*ge_session"
    ):
        compiled(made)


def test_a_graph_that_divides_integers_has_fixed_sizes() -> None:
    """The compiler does not know the divisors, and zeros divide nothing."""
    graph = Graph("divided")
    desc = TensorDesc(DataType.INT32, (4,), placement=Placement.DEVICE)
    graph.output([graph.add("FloorDiv", graph.data("x", desc), graph.data("y", desc), outputs=desc)])
    run = compiled(Program(graph, (ArgInput(0), ArgInput(1)), (GraphOutput(0),), 2))
    x = torch.tensor([7, -7, 8, 0], dtype=torch.int32)
    y = torch.tensor([2, 2, -3, 5], dtype=torch.int32)
    assert torch.equal(run((x.to("npu"), y.to("npu")), ())[0].cpu(), x // y)


def test_a_graph_without_results_is_refused() -> None:
    graph = Graph("writes")
    graph.output([], control=[graph.add("Relu", graph.data("x", SQUARE), outputs=SQUARE)])
    with pytest.raises(
        EngineError, match=r"(?s)engine atc .*nothing but write into its arguments.*ge_session"
    ):
        compiled(Program(graph, (ArgInput(0),), (), 1))


def test_an_atc_that_is_killed_leaves_the_graph_to_be_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = tmp_path / "killed"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o755)
    x, folder = torch.randn(4, 4, device="npu"), tmp_path / "ge"
    run = compiled(folder=folder)
    with monkeypatch.context() as patch:
        patch.setattr(_atc, "PROGRAM", str(killed))
        with pytest.raises(EngineError, match="was killed by SIGKILL"):
            run((x,), ())
    assert list(folder.iterdir()) == []
    torch.testing.assert_close(run((x,), ())[0], x.relu())
    assert run.stats()["kept"] == "written"


def test_G18_what_atc_compiled_is_kept_and_read_and_a_spoilt_file_is_compiled_anew(
    tmp_path: Path, record: Path
) -> None:
    x, folder = torch.randn(4, 4, device="npu"), tmp_path / "ge"
    for state, compilations in (("written", 1), ("read", 1)):
        run = compiled(folder=folder)
        torch.testing.assert_close(run((x,), ())[0], x.relu())
        assert (run.stats()["kept"], len(calls(record))) == (state, compilations)
    (file,) = folder.glob("*/*.om")
    file.write_bytes(file.read_bytes()[:-7])
    run = compiled(folder=folder)
    torch.testing.assert_close(run((x,), ())[0], x.relu())
    assert (run.stats()["kept"], len(calls(record))) == ("written", 2)


def test_a_closed_graph_says_so() -> None:
    run = compiled()
    x = torch.randn(4, 4, device="npu")
    run((x,), ())
    run.close()
    with pytest.raises(EngineError, match="was closed"):
        run((x,), ())


def test_without_its_program_the_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_atc, "PROGRAM", "atc_of_nobody")
    reason = Atc().unavailable()
    assert reason is not None
    assert ("atc_of_nobody is not on PATH" in reason.reason, "set_env.sh" in reason.advice) == (True, True)
    with pytest.raises(EngineUnavailableError, match="atc_of_nobody is not on PATH"):
        _engines.choose_engine("atc", [])


def test_a_result_equals_that_of_the_extension_to_the_bit() -> None:
    made = relu()
    settings = resolve(CompilerConfig(), Context(device="npu"))
    other = TorchairExtension().compile(made, engine_options(settings, made, NpuDevice.current()))
    x = torch.randn(4, 4, device="npu")
    assert torch.equal(compiled()((x,), ())[0], other((x,), ())[0])
