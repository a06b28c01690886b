"""Our session of the Graph Engine: what it tells the engine, and what it says when something is missing or fails."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from air_config import CompilerConfig, Context, resolve
from air_geir import _engines
from air_geir.engines import (
    GeSession,
    NpuDevice,
    TorchairExtension,
    Unavailable,
    _extension,
    engine_options,
    native,
    start_dump,
)
from air_geir.errors import EngineError, EngineUnavailableError
from air_geir.ir import DataType, Graph, Placement, TensorDesc
from air_geir.program import ArgInput, GraphOutput, Program

pytest.importorskip("torch_npu")
air_sim = pytest.importorskip("air_sim")
forks = pytest.importorskip("air_sim.forks")
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
    done = forks.run(RUN, engine, variables={"AIR_SIM_GE_RECORD": str(record)})
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


COUNTED = """
import sys, torch, torch_npu, air_geir, air_sim
from air_config import CompilerConfig, Context, resolve
from torch.fx.experimental.proxy_tensor import make_fx
config = CompilerConfig()
config.experimental_config.memory_efficiency = sys.argv[2] == "True"
def f(x, y):
    return (torch.relu(x @ y) + x,)
x = torch.randn(4, 4, device="npu")
settings = resolve(config, Context(device="npu"))
run = air_geir.compile_graph(make_fx(f)(x, x), [x, x], settings=settings, engine=sys.argv[1])
for _ in range(3):
    torch.testing.assert_close(run(x, x)[0], f(x, x)[0])
for name in ("GEInitialize", *("Session::" + name for name in sys.argv[3:])):
    print(name.rpartition(":")[2], air_sim.calls("ge::" + name))
"""
ONCE = (
    "Session", "AddGraph", "CompileGraph", "GetCompiledGraphSummary", "SetGraphConstMemoryBase",
    "RunGraphWithStreamAsync",
)  # fmt: skip
FEATURES = (
    "UpdateGraphFeatureMemoryBase", "SetGraphFixedFeatureMemoryBase", "UpdateGraphRefreshableFeatureMemoryBase"
)  # fmt: skip


def counted(engine: str, refreshable: bool) -> dict[str, int]:
    """How often a process with this engine called what of the Graph Engine, for three runs of a graph."""
    done = forks.run(COUNTED, engine, str(refreshable), *ONCE, *FEATURES)
    assert done.returncode == 0, done.stderr
    return {name: int(count) for name, _, count in (line.partition(" ") for line in done.stdout.splitlines())}


def test_N16_the_engine_is_called_as_often_as_by_the_extension() -> None:
    ours, theirs = counted("ge_session", False), counted("torchair_extension", False)
    assert ours == theirs
    assert (ours["AddGraph"], ours["RunGraphWithStreamAsync"]) == (1, 3)


def test_memory_that_may_move_is_taken_for_each_run_and_the_rest_once() -> None:
    found = counted("ge_session", True)
    assert [found[name] for name in FEATURES] == [0, 1, 3]


def static() -> Program:
    graph = Graph("fixed")
    desc = TensorDesc(DataType.FLOAT, (4, 4), placement=Placement.DEVICE)
    graph.output([graph.add("Relu", graph.data("x", desc), outputs=desc)])
    return Program(graph, (ArgInput(0),), (GraphOutput(0),), 1)


@pytest.mark.parametrize("refreshable", [False, True])
def test_no_memory_for_a_graph_is_an_error_and_it_is_compiled_again(
    refreshable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, config = static(), CompilerConfig()
    config.experimental_config.memory_efficiency = refreshable
    options = engine_options(resolve(config, Context(device="npu")), made, NpuDevice.current())
    run = GeSession().compile(made, options)
    x = torch.randn(4, 4, device="npu")

    def full(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("NPU out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "empty", full)
        with pytest.raises(
            torch.OutOfMemoryError, match=r"(?s)no memory for graph fixed: NPU out of memory.*free tensors"
        ):
            run((x,), ())
    assert run.stats()["compiled"] is False
    torch.testing.assert_close(run((x,), ())[0], x.relu())


def test_a_graph_that_the_engine_refuses_leaves_the_session_to_others() -> None:
    graph = Graph("odd")
    desc = TensorDesc(DataType.FLOAT, (4, 4), placement=Placement.DEVICE)
    graph.output([graph.add("Dawsn", graph.data("x", desc), outputs=desc)])
    odd = Program(graph, (ArgInput(0),), (GraphOutput(0),), 1)
    settings = resolve(CompilerConfig(), Context(device="npu"))
    run = GeSession().compile(odd, engine_options(settings, odd, NpuDevice.current()))
    x = torch.randn(4, 4, device="npu")
    for _ in range(2):
        with pytest.raises(EngineError, match=r"failed to compile graph odd: .*Dawsn"):
            run((x,), ())
    torch.testing.assert_close(compiled()((x,), ())[0], x.relu())


HALF_WAY = """
import torch, torch_npu
from dataclasses import replace
from air_config import CompilerConfig, Context, resolve
from air_geir.engines import GeSession, NpuDevice, engine_options
from air_geir.errors import EngineError
from air_geir.ir import DataType, Graph, Placement, TensorDesc
from air_geir.program import ArgInput, GraphOutput, Program
graph = Graph("g")
desc = TensorDesc(DataType.FLOAT, (4, 4), placement=Placement.DEVICE)
graph.output([graph.add("Relu", graph.data("x", desc), outputs=desc)])
made = Program(graph, (ArgInput(0),), (GraphOutput(0),), 1)
options = engine_options(resolve(CompilerConfig(), Context(device="npu")), made, NpuDevice.current())
try:
    GeSession().compile(made, replace(options, session={**options.session, "ge.exec.deviceId": "7"}))
except EngineError as error:
    print(error.what)
x = torch.randn(4, 4, device="npu")
print(torch.equal(GeSession().compile(made, options)((x,), ())[0], x.relu()))
"""


def test_a_session_that_does_not_start_is_an_error_and_the_next_one_starts() -> None:
    done = forks.run(HALF_WAY)
    assert done.returncode == 0, done.stderr
    refusal, works = done.stdout.splitlines()
    assert "failed to start its session" in refusal
    assert "there is no device 7" in refusal
    assert works == "True"


def test_a_dump_is_configured_where_the_wheel_has_no_extension(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = air_sim.calls("aclmdlSetDump")
    monkeypatch.setattr(
        _extension, "unavailable", lambda: Unavailable("torchair_extension", "it is not there")
    )
    started = air_sim.calls("aclmdlInitDump")
    for _ in range(2):
        start_dump({"dump": {"dump_path": str(tmp_path), "dump_list": []}}, None)
    assert air_sim.calls("aclmdlSetDump") == before + 2
    assert air_sim.calls("aclmdlInitDump") <= started + 1, "CANN refuses a second one"


def test_results_of_open_sizes_stay_as_they_are_when_the_graph_runs_again() -> None:
    run = compiled()
    x, y = torch.randn(3, 4, device="npu"), torch.randn(3, 4, device="npu")
    (first,) = run((x,), ())
    (second,) = run((y,), ())
    torch.testing.assert_close(first, x.relu())
    torch.testing.assert_close(second, y.relu())


@pytest.mark.skipif(
    "expandable_segments" in os.environ.get("PYTORCH_NPU_ALLOC_CONF", ""),
    reason="the allocator asks for parts of what it needs, and the fault lasts",
)
def test_no_memory_for_a_result_is_an_error_and_the_graph_runs_again() -> None:
    run, npu = compiled(), torch.get_device_module("npu")
    x = torch.randn(1 << 20, 4, device="npu")  # more than what torch keeps for small tensors
    run((x,), ())
    npu.synchronize()
    npu.empty_cache()
    air_sim.change(fault="oom@1")
    try:
        with pytest.raises(
            EngineError, match=r"(?s)no memory for graph open: NPU out of memory.*free tensors"
        ):
            run((x,), ())
    finally:
        air_sim.change(fault="")
    torch.empty(1 << 21, 4, device="npu")  # the fault lasts while the same size is asked for again
    torch.testing.assert_close(run((x,), ())[0], x.relu())


def test_a_tensor_of_other_type_or_size_is_refused() -> None:
    made = static()
    run = GeSession().compile(
        made,
        engine_options(resolve(CompilerConfig(), Context(device="npu")), made, NpuDevice.current()),
    )
    x = torch.randn(4, 4, device="npu")
    run((x,), ())
    with pytest.raises(EngineError, match="input 0 is of type Half, the graph takes Float"):
        run((x.half(),), ())
    with pytest.raises(EngineError, match="takes 32 bytes, in the first call it took 64"):
        run((x[:2],), ())
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


def test_without_what_compiles_the_binding_the_engine_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(native, "_python_headers", lambda: tmp_path)
        reason = GeSession().unavailable()
    assert reason is not None
    assert (f"Python's headers are not in {tmp_path}" in reason.reason, "python3-dev" in reason.advice) == (
        True,
        True,
    )
    monkeypatch.setattr(native, "compiler", lambda: None)
    reason = GeSession().unavailable()
    assert reason is not None
    assert ("no C++ compiler" in reason.reason, "set CXX" in reason.advice) == (True, True)


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


AFTER_A_FAILED_LAUNCH = """
import sys, torch, torch_npu, air_geir, air_sim
from air_config import CompilerConfig, Context, resolve
from air_geir.errors import EngineError
from torch.fx.experimental.proxy_tensor import make_fx
def f(x):
    return (torch.relu(x),)
x = torch.randn(4, 4, device="npu")
settings = resolve(CompilerConfig(), Context(device="npu"))
run = air_geir.compile_graph(make_fx(f)(x), [x], settings=settings, engine=sys.argv[1])
run(x)
torch.npu.synchronize()
air_sim.change(fault="aclnnInplaceCopy@1")
x.copy_(x.t())  # the launch that fails waits in torch_npu's queue
try:
    run(x)
except EngineError as error:
    print("raised", " ".join(str(error).split()))
"""


@pytest.mark.parametrize("engine", ["ge_session", "torchair_extension"])
def test_a_launch_that_failed_before_a_run_is_an_error_of_the_run(engine: str) -> None:
    queued = {"TASK_QUEUE_ENABLE": "1", "ASCEND_LAUNCH_BLOCKING": "0"}
    done = forks.run(AFTER_A_FAILED_LAUNCH, engine, variables=queued)
    assert "raised the graph engine failed to run graph" in done.stdout, done.stderr[-3000:]
    assert "aclnnInplaceCopy" in done.stdout
