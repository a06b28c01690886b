"""A graph that ran and then fails: an error with its cause, a process that goes on, and the right numbers after it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from air_config import CompilerConfig, Context, resolve
from air_geir.engines import GeSession, NpuDevice, engine_options
from air_geir.errors import EngineError
from air_geir.ir import DataType, Graph, Placement, TensorDesc
from air_geir.program import ArgInput, GraphOutput, Program

pytest.importorskip("torch_npu")
air_sim = pytest.importorskip("air_sim")
pytestmark = pytest.mark.npu

FIXED = TensorDesc(DataType.FLOAT, (4, 4), placement=Placement.DEVICE)
PLACES = TensorDesc(DataType.INT64, (-1, 2), placement=Placement.DEVICE)


@pytest.fixture(autouse=True)
def no_fault_is_left() -> Iterator[None]:
    yield
    air_sim.change(fault="")
    air_sim.recover()


def compiled(kind: str, result: TensorDesc, **attributes: Any) -> Any:
    graph = Graph(kind.lower())
    graph.output([graph.add(kind, graph.data("x", FIXED), outputs=result, **attributes)])
    made = Program(graph, (ArgInput(0),), (GraphOutput(0),), 1)
    settings = resolve(CompilerConfig(), Context(device="npu"))
    return GeSession().compile(made, engine_options(settings, made, NpuDevice.current()))


@pytest.mark.skipif(
    os.environ.get("ASCEND_LAUNCH_BLOCKING") == "1",
    reason="the operator before the run is waited for, and fails",
)
def test_a_run_that_waits_for_a_failed_kernel_names_it_and_later_runs_are_right() -> None:
    """How many places there are only the values tell: the engine waits for what computes them."""
    run, x = compiled("NonZero", PLACES, dtype=DataType.INT64), torch.randn(4, 4, device="npu").relu()
    places = x.nonzero().cpu()
    assert torch.equal(run((x,), ())[0].cpu(), places)
    air_sim.change(fault="kernel_error@1")
    with pytest.raises(
        EngineError, match=r"(?s)failed to run graph nonzero: .*stream failed.*synchronize"
    ) as caught:
        run((x + 0,), ())
    assert isinstance(caught.value.__cause__, RuntimeError)
    air_sim.change(fault="")
    air_sim.recover()
    for _ in range(2):
        assert torch.equal(run((x,), ())[0].cpu(), places)


def test_a_graph_whose_kernel_fails_is_reported_when_it_is_waited_for_and_later_runs_are_right() -> None:
    run, other = compiled("Relu", FIXED), compiled("Neg", FIXED)
    x = torch.randn(4, 4, device="npu")
    expected = x.cpu().relu()
    assert torch.equal(run((x,), ())[0].cpu(), expected)
    air_sim.change(fault="kernel_error@1")
    (result,) = run((x,), ())
    with pytest.raises(RuntimeError, match=r"synchronize failed.*507015"):
        result.cpu()
    air_sim.change(fault="")
    air_sim.recover()
    for _ in range(2):
        assert torch.equal(run((x,), ())[0].cpu(), expected)
        assert torch.equal(other((x,), ())[0].cpu(), -x.cpu())


def test_a_run_after_the_graph_was_taken_from_the_engine_says_so_and_others_go_on() -> None:
    """What a session that broke says: it no longer knows the graph."""
    run, other = compiled("Relu", FIXED), compiled("Neg", FIXED)
    x = torch.randn(4, 4, device="npu")
    run((x,), ())
    inner = run._compiled
    inner._calls.remove(inner._id)
    with pytest.raises(EngineError, match=r"failed to run graph relu: .*no graph has the id"):
        run((x,), ())
    assert torch.equal(other((x,), ())[0].cpu(), -x.cpu())
    run.close()
    again = compiled("Relu", FIXED)
    assert torch.equal(again((x,), ())[0].cpu(), x.cpu().relu())
