"""Our session of the Graph Engine: what it tells the engine, and what it says when something is missing or fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from air_config import CompilerConfig, Context, resolve
from air_geir import _engines
from air_geir.engines import GeSession, NpuDevice, TorchairExtension, Unavailable, engine_options, native
from air_geir.errors import EngineError, EngineUnavailableError
from air_geir.ir import DataType, Graph, Placement, TensorDesc
from air_geir.program import ArgInput, GraphOutput, Program

pytest.importorskip("torch_npu")
pytestmark = pytest.mark.npu

SQUARE = TensorDesc(DataType.FLOAT, (-1, 4), placement=Placement.DEVICE)

RUN = """
import sys, torch, torch_npu, air_geir
from air_config import CompilerConfig, Context, resolve
settings = resolve(CompilerConfig(), Context(device="npu"))
def f(x, y):
    return (torch.relu(x @ y) + x,)
x = torch.randn(4, 4, device="npu")
from torch.fx.experimental.proxy_tensor import make_fx
for kind in ("real", "symbolic"):
    gm = make_fx(f, tracing_mode=kind)(x, x)
    run = air_geir.compile_graph(gm, [n.meta["val"] if kind == "symbolic" else x
        for n in gm.graph.nodes if n.op == "placeholder"], settings=settings, engine=sys.argv[1])
    torch.testing.assert_close(run(x, x)[0], f(x, x)[0])
"""


def told(engine: str, folder: Path) -> list[tuple[str, dict[str, str]]]:
    """The calls with options that a process makes with this engine."""
    record = folder / f"{engine}.jsonl"
    environment = {**os.environ, "AIR_SIM_GE_RECORD": str(record)}
    command = [sys.executable, "-W", "ignore", "-c", RUN, engine]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    calls = [json.loads(line) for line in record.read_text().splitlines()]
    return [(call["call"], call["options"]) for call in calls]


def test_the_engine_is_told_what_the_extension_tells_it_call_by_call(tmp_path: Path) -> None:
    ours, theirs = told("ge_session", tmp_path), told("torchair_extension", tmp_path)
    assert [name for name, _ in ours] == ["GEInitialize", "Session", "AddGraph", "AddGraph"]
    assert ours == theirs


def relu() -> Program:
    graph = Graph("open")
    graph.output([graph.add("Relu", graph.data("x", SQUARE), outputs=SQUARE)])
    return Program(graph, (ArgInput(0),), (GraphOutput(0),), 1)


def compiled() -> Any:
    made = relu()
    settings = resolve(CompilerConfig(), Context(device="npu"))
    return GeSession().compile(made, engine_options(settings, made, NpuDevice.current()))


def test_results_of_open_sizes_stay_as_they_are_when_the_graph_runs_again() -> None:
    run = compiled()
    x, y = torch.randn(3, 4, device="npu"), torch.randn(3, 4, device="npu")
    (first,) = run((x,), ())
    (second,) = run((y,), ())
    torch.testing.assert_close(first, x.relu())
    torch.testing.assert_close(second, y.relu())


def test_no_memory_for_a_result_is_an_error_and_the_graph_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    run = compiled()
    x = torch.randn(3, 4, device="npu")
    run((x,), ())

    def full(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("NPU out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty", full)
        with pytest.raises(EngineError, match="no memory for graph open: NPU out of memory"):
            run((x,), ())
    torch.testing.assert_close(run((x,), ())[0], x.relu())


def test_a_tensor_in_the_wrong_memory_is_refused() -> None:
    run = compiled()
    run((torch.randn(3, 4, device="npu"),), ())
    with pytest.raises(EngineError, match="input 0 lies on cpu, the graph wants it on npu"):
        run((torch.randn(3, 4),), ())


def test_without_the_library_the_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "LIBRARY", "libge_runner_of_nobody.so")
    reason = GeSession().unavailable()
    assert reason is not None
    assert "libge_runner_of_nobody.so cannot be loaded" in reason.reason
    assert "set_env.sh" in reason.advice


def test_a_library_of_another_version_is_named(tmp_path: Path) -> None:
    other = tmp_path / "libge_other.so"
    program = native.compiler()
    assert program is not None
    subprocess.run([program, "-shared", "-x", "c++", "/dev/null", "-o", str(other)], check=True)
    with pytest.raises(EngineUnavailableError, match="of a version that this binding does not fit"):
        native.library(other)


def test_auto_takes_our_session_where_the_extension_is_not_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = torch.ones(2, device="npu")
    first = _engines.choose_engine("auto", [x])
    assert (first.name, _engines.why("auto", first)) == (
        "torchair_extension",
        "the first choice for these tensors",
    )
    monkeypatch.setattr(
        TorchairExtension, "unavailable", lambda _: Unavailable("torchair_extension", "it is not there")
    )
    second = _engines.choose_engine("auto", [x])
    assert second.name == "ge_session"
    assert "torchair_extension: it is not there" in _engines.why("auto", second)
