"""The Graph Engine through the wheel's own extension and through our session, on a device or air-sim."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from air_config import CompilerConfig, Context, resolve
from air_geir import file
from air_geir.engines import EngineOptions, GeSession, NpuDevice, TorchairExtension, bind, engine_options
from air_geir.errors import EngineError, OptionError
from air_geir.ge_passes import optimize
from air_geir.ir import DataType, Graph, Placement, TensorDesc, symbol
from air_geir.program import ArgInput, GraphOutput, Program, SymbolSource

torch_npu = pytest.importorskip("torch_npu")
pytestmark = pytest.mark.npu

WEIGHT = TensorDesc(DataType.FLOAT, (4, 4), placement=Placement.DEVICE)


def layer(*, dynamic: bool = False, update: bool = False) -> Program:
    graph = Graph("layer")
    desc = TensorDesc(DataType.FLOAT, (symbol("s0") if dynamic else 4, 4), placement=Placement.DEVICE)
    x, w = graph.data("x", desc), graph.data("w", WEIGHT)
    product = graph.add("MatMul", x, w, outputs=desc)
    result = graph.add("Add", graph.add("Relu", product, outputs=desc), x, outputs=desc)
    if update:
        graph.add("Assign", w, graph.add("Add", w, w, outputs=WEIGHT), outputs=WEIGHT)
    graph.output([result])
    symbols = {"s0": SymbolSource(0, 0)}
    made = Program(
        graph,
        (ArgInput(0), ArgInput(1, parameter=True)),
        (GraphOutput(0),),
        2,
        symbols=symbols,
        hints={"s0": 4},
    )
    optimize(made)
    return made


def random(rows: int) -> torch.Tensor:
    return torch.randn(rows, 4, device="npu")


def options(made: Program) -> EngineOptions:
    return engine_options(resolve(CompilerConfig(), Context(device="npu")), made, NpuDevice.current())


Made = type[TorchairExtension] | type[GeSession]


@pytest.fixture(params=[TorchairExtension, GeSession], ids=lambda engine: engine.name)
def make(request: pytest.FixtureRequest) -> Made:
    engine: Made = request.param
    return engine


def compiled(made: Program, make: Made = TorchairExtension) -> Callable[..., list[Any]]:
    return bind(made, make().compile(made, options(made)))


def expected(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ w) + x


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_graph_runs_and_equals_eager(dynamic: bool, make: Made) -> None:
    run = compiled(layer(dynamic=dynamic), make)
    for rows in (4, 4, 7) if dynamic else (4, 4):
        x, w = random(rows), random(4)
        (result,) = run(x, w)
        torch.testing.assert_close(result, expected(x, w))


def test_an_update_is_written_into_the_argument(make: Made) -> None:
    run = compiled(layer(update=True), make)
    x, w = random(4), random(4)
    before, address = w.clone(), w.data_ptr()
    (result,) = run(x, w)
    torch.testing.assert_close(result, expected(x, before))
    torch.testing.assert_close(w, before * 2)
    assert w.data_ptr() == address


def test_a_graph_read_from_a_file_runs(tmp_path: Path, make: Made) -> None:
    made = layer()
    path, *_ = file.write(made.graph, tmp_path / "layer.air")
    again = Program(file.read(path), made.inputs, made.outputs, 2)
    x, w = random(4), random(4)
    (result,) = compiled(again, make)(x, w)
    torch.testing.assert_close(result, expected(x, w))


def test_session_options_cannot_change_and_the_error_names_them(make: Made) -> None:
    made = layer()
    engine = make()
    known = options(made)
    engine.compile(made, known)
    other = EngineOptions({**known.session, "ge.oo.level": "O1"}, known.graph)
    with pytest.raises(OptionError, match=r"ge\.oo\.level = O1 \(the first graph set O3\)"):
        engine.compile(made, other)


def test_determinism_is_an_option_of_each_graph_and_may_differ_from_the_sessions(make: Made) -> None:
    made = layer()
    engine = make()
    engine.compile(made, options(made))
    torch.use_deterministic_algorithms(True)
    try:
        strict = options(made)
        run = bind(made, engine.compile(made, strict))
    finally:
        torch.use_deterministic_algorithms(False)
    assert strict.graph["ge.deterministic"] == "1"
    x, w = random(4), random(4)
    torch.testing.assert_close(run(x, w)[0], expected(x, w))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_run_that_the_engine_refuses_names_the_graph_and_the_next_one_is_right(
    dynamic: bool, make: Made
) -> None:
    air_sim = pytest.importorskip("air_sim", reason="air-sim injects the fault")
    run, (x, w) = compiled(layer(dynamic=dynamic), make), (random(4), random(4))
    run(x, w)
    torch_npu.npu.synchronize()
    air_sim.change(fault="ge::Session::RunGraphWithStreamAsync@1")
    with pytest.raises(EngineError, match=r"(?s)failed to run graph \w+: .*a fault was injected.*advice"):
        run(x, w)
    torch.testing.assert_close(run(x, w)[0], expected(x, w))


def test_a_first_run_that_the_engine_refuses_names_the_graph_and_the_next_one_is_right(make: Made) -> None:
    air_sim = pytest.importorskip("air_sim", reason="air-sim injects the fault")
    run, (x, w) = compiled(layer(), make), (random(4), random(4))
    torch_npu.npu.synchronize()
    air_sim.change(fault="ge::Session::SetGraphConstMemoryBase@1")
    with pytest.raises(EngineError, match="graph layer"):
        run(x, w)
    torch.testing.assert_close(run(x, w)[0], expected(x, w))


def test_an_operator_the_engine_lacks_is_an_engine_error(make: Made) -> None:
    graph = Graph("odd")
    x = graph.data("x", WEIGHT)
    graph.output([graph.add("Dawsn", x, outputs=WEIGHT)])
    made = Program(graph, (ArgInput(0),), (GraphOutput(0),), 1)
    optimize(made)
    with pytest.raises(EngineError, match="failed to compile graph odd"):
        compiled(made, make)(random(4))


def test_a_closed_graph_says_so(make: Made) -> None:
    made = layer()
    product = make().compile(made, options(made))
    product.close()
    with pytest.raises(EngineError, match="was closed"):
        product((random(4), random(4)), ())


def test_signal_handlers_stay_as_they_were() -> None:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    theirs = {name for name in sys.modules if name.startswith("torchair.") and "._" not in name}
    compiled(layer())(random(4), random(4))
    assert [signal.getsignal(number) for number in numbers] == before
    assert {name for name in sys.modules if name.startswith("torchair.") and "._" not in name} == theirs


def test_importing_the_package_does_not_import_torch_npu() -> None:
    code = "import sys, air_geir; sys.exit('torch_npu' in sys.modules)"
    environment = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONPATH": ":".join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
