"""Engines of a device compile beside the program: same results, same options told, errors in the call."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

import air_geir
from air_config import CompilerConfig, Context, resolve
from air_geir.engines import _atc, _ge_session, _torchair_extension, kept_in
from air_geir.errors import EngineError
from air_geir.file import to_bytes
from air_geir.offline import compile_air

pytest.importorskip("torch_npu")
pytest.importorskip("air_sim")
pytestmark = pytest.mark.npu

COMPILED: dict[str, type[Any]] = {
    "torchair_extension": _torchair_extension.CompiledOnDevice,
    "ge_session": _ge_session.CompiledBySession,
    "atc": _atc.CompiledByAtc,
}


def chain(length: int) -> Any:
    def called(x: Tensor, y: Tensor) -> tuple[Tensor]:
        for _ in range(length):
            x = torch.relu(x @ y) + x
        return (x,)

    return called


def traced(function: Any, *args: Tensor) -> fx.GraphModule:
    return make_fx(function, tracing_mode="fake")(*args)


def compiled(function: Any, args: Sequence[Tensor], engine: str, **options: Any) -> Any:
    config = CompilerConfig()
    for path, value in options.items():
        config.set(path.replace("__", "."), value)
    settings = resolve(config, Context(device="npu"))
    return air_geir.compile_graph(traced(function, *args), args, settings=settings, engine=engine)


@pytest.fixture
def args() -> tuple[Tensor, Tensor]:
    return torch.randn(4, 4, device="npu"), torch.randn(4, 4, device="npu")


def began_in(monkeypatch: pytest.MonkeyPatch, engine: str) -> list[str]:
    """The threads in which graphs are compiled from now on."""
    found: list[str] = []
    kind = COMPILED[engine]
    name = "for_dense_inputs" if engine == "atc" else "_compile"
    own = getattr(kind, name)

    def noting(self: Any, *given: Any) -> Any:
        found.append(threading.current_thread().name)
        return own(self, *given)

    monkeypatch.setattr(kind, name, noting)
    return found


@pytest.mark.parametrize("engine", COMPILED)
def test_graphs_that_are_compiled_ahead_compute_the_same(
    engine: str, args: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = began_in(monkeypatch, engine)
    runs = [compiled(chain(length), args, engine) for length in range(1, 5)]
    for length, run in enumerate(runs, 1):
        for _ in range(2):
            torch.testing.assert_close(run(*args), list(chain(length)(*args)))
        assert run.stats()["compiled"]
        run.close()
    assert threads == ["compile graph"] * 4


@pytest.mark.parametrize("engine", COMPILED)
def test_without_the_option_a_graph_is_compiled_in_its_first_call(
    engine: str, args: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = began_in(monkeypatch, engine)
    run = compiled(chain(1), args, engine, air__compile_ahead=False)
    assert not threads
    torch.testing.assert_close(run(*args), list(chain(1)(*args)))
    assert threads == ["MainThread"]


@pytest.mark.parametrize("engine", COMPILED)
def test_an_error_of_the_engine_is_raised_by_the_call_and_the_next_one_tries_again(
    engine: str, args: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = COMPILED[engine]
    name = "for_dense_inputs"
    own = getattr(kind, name)

    def failing(self: Any) -> None:
        raise EngineError("out of memory", where="model.py:12")

    monkeypatch.setattr(kind, name, failing)
    run = compiled(chain(1), args, engine)
    with pytest.raises(EngineError, match=r"out of memory\n.*model.py:12"):
        run(*args)
    monkeypatch.setattr(kind, name, own)
    torch.testing.assert_close(run(*args), list(chain(1)(*args)))


@pytest.mark.parametrize("engine", COMPILED)
def test_a_graph_that_is_closed_before_its_first_call_leaves_nothing(
    engine: str, args: tuple[Tensor, Tensor]
) -> None:
    runs = [compiled(chain(length), args, engine) for length in range(1, 4)]
    for run in runs:
        run.close()
    with pytest.raises(EngineError, match="was closed"):
        runs[0](*args)
    again = compiled(chain(1), args, engine)
    torch.testing.assert_close(again(*args), list(chain(1)(*args)))


@pytest.mark.parametrize("engine", ["torchair_extension", "atc"])
def test_what_is_kept_for_other_processes_is_whole(
    engine: str, args: tuple[Tensor, Tensor], tmp_path: Path
) -> None:
    tmp_path.chmod(0o700)
    with kept_in(tmp_path):
        runs = [compiled(chain(length), args, engine) for length in (1, 2)]
    for run in runs:
        run(*args)
    assert [run.stats()["kept"] for run in runs] == ["written", "written"]
    assert len([place for place in tmp_path.iterdir() if not place.name.startswith(".")]) == 2
    assert not [place for place in tmp_path.iterdir() if place.name.startswith(".")]
    with kept_in(tmp_path):
        again = compiled(chain(1), args, engine)
    torch.testing.assert_close(again(*args), list(chain(1)(*args)))
    assert again.stats()["kept"] == "read"


def test_constants_of_a_device_are_read_in_the_order_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = began_in(monkeypatch, "torchair_extension")
    weight = torch.randn(4, device="npu")
    x = torch.randn(4, device="npu")
    gm = traced(lambda x: (x + 1,), x)
    with gm.graph.inserting_before(gm.graph.output_node()):
        gm.register_buffer("weight", weight)
        held = gm.graph.get_attr("weight")
        held.meta["val"] = gm.graph.output_node().args[0][0].meta["val"]  # type: ignore[index, union-attr]
        total = gm.graph.call_function(torch.ops.aten.mul.Tensor, (gm.graph.output_node().args[0][0], held))  # type: ignore[index]
        total.meta["val"] = held.meta["val"]
    gm.graph.output_node().args = ((total,),)
    gm.recompile()
    run = air_geir.compile_graph(gm, [x], engine="torchair_extension")
    torch.testing.assert_close(run(x), [(x + 1) * weight])
    assert threads == ["MainThread"]


def test_processes_of_atc_run_beside_each_other(
    args: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_atc, "PROCESSES", threading.BoundedSemaphore(3))
    together = threading.Barrier(3, timeout=60)

    def meeting(*given: Any, **named: Any) -> Any:
        together.wait()
        return compile_air(*given, **named)

    monkeypatch.setattr("air_geir.engines._atc.compile_air", meeting)
    runs = [compiled(chain(length), args, "atc") for length in (1, 2, 3)]
    for length, run in enumerate(runs, 1):
        torch.testing.assert_close(run(*args), list(chain(length)(*args)))


def test_one_session_compiles_one_graph_at_a_time(
    args: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    running, most = [], []

    def slowly(graph: Any) -> bytes:
        running.append(graph)
        most.append(len(running))
        time.sleep(0.05)
        running.remove(graph)
        return to_bytes(graph)

    monkeypatch.setattr("air_geir.engines._torchair_extension.to_bytes", slowly)
    runs = [compiled(chain(length), args, "torchair_extension") for length in (1, 2, 3)]
    for run in runs:
        run(*args)
    assert most == [1, 1, 1]
