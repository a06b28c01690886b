"""Memory for results: taken before the engine launches, so that no other thread's reader is still in a queue."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import air_geir
from air_config import CompilerConfig, Context, resolve
from air_geir.engines._results import result_memory
from air_geir.ir import DataType, Expr, Graph, Placement, TensorDesc, symbol
from air_geir.program import ArgInput, GraphOutput, Program

pytest.importorskip("torch_npu")
pytestmark = pytest.mark.npu


@pytest.fixture
def threads_that_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def wave(x: Tensor) -> tuple[Tensor, ...]:
    return ((x * 2).sin() + x,)


@pytest.mark.usefixtures("threads_that_change_often")
@pytest.mark.parametrize("engine", ["torchair_extension", "ge_session"])
@pytest.mark.parametrize("sizes", ["real", "symbolic"])
def test_threads_that_share_a_stream_each_get_their_own_numbers(
    engine: str, sizes: Literal["real", "symbolic"]
) -> None:
    settings = resolve(CompilerConfig(), Context(device="npu"))
    gm = make_fx(wave, tracing_mode=sizes)(torch.ones(4, 4, device="npu"))
    examples = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    step = air_geir.compile_graph(gm, examples, settings=settings, engine=engine)
    given = [torch.full((4, 4), float(number), device="npu") for number in range(30)]
    wanted = [wave(x)[0].cpu() for x in given]

    def wrong(thread: int) -> int:
        numbers = [number for _ in range(100) for number in range(thread, 30, 3)]
        got = [(number, step(given[number])[0].clone()) for number in numbers]
        return sum(not torch.allclose(result.cpu(), wanted[number]) for number, result in got)

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(wrong, range(3))) == [0, 0, 0]


def relu(size: int | Expr) -> Program:
    graph = Graph("relu")
    desc = TensorDesc(DataType.FLOAT, (size, 4), placement=Placement.DEVICE)
    graph.output([graph.add("Relu", graph.data("x", desc), outputs=desc)])
    return Program(graph, (ArgInput(0),), (GraphOutput(0),), 1)


def test_a_size_that_an_input_has_gives_memory_before_the_call() -> None:
    (taken,) = result_memory(relu(symbol("s0")))([torch.ones(3, 4)], ())
    assert taken is not None
    assert (taken.shape, taken.stride(), taken.device.type) == ((3, 4), (4, 1), "npu")


def test_an_unknown_size_is_left_to_the_engine() -> None:
    assert result_memory(relu(-1))([torch.ones(3, 4)], ()) == [None]


def test_a_result_that_has_memory_keeps_it() -> None:
    program, own = relu(3), torch.ones(3, 4)
    program.assigned[0] = 0
    (taken,) = result_memory(program)([own], [own])
    assert taken is own
