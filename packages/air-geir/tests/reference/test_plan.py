"""What the reference engine decides before the first call."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from air_geir.errors import EngineError
from air_geir.ir import DataType, Graph, Origin, TensorDesc
from air_geir.proof import compile_call
from air_geir.reference import ReferenceEngine, kernel_types, run_graph

FLOATS = TensorDesc(DataType.FLOAT, (2, 3))


def test_what_depends_on_constants_alone_is_computed_once() -> None:
    run, tensors = compile_call(lambda x: x + torch.arange(3) * 2, (torch.ones(3),), {})
    assert int(str(run.stats()["folded"])) >= 2
    assert run.stats()["steps"] == 1
    assert torch.equal(run(*tensors)[0], torch.tensor([1.0, 3.0, 5.0]))


def test_sizes_are_computed_with_plain_numbers() -> None:
    graph = Graph("sizes")
    x = graph.data("x", TensorDesc.of(torch.empty(2, 3)).with_shape(None))
    sizes = graph.add("Shape", x, dtype=9, outputs=TensorDesc(DataType.INT64, (2,)))
    scalar = TensorDesc(DataType.INT64, ())
    rows = graph.add("Gather", sizes, graph.const(0), outputs=scalar)
    columns = graph.add("Gather", sizes, graph.const(1), outputs=scalar)
    total = graph.add("Mul", rows, columns, outputs=scalar)
    shape = graph.add("Pack", [total], N=1, outputs=TensorDesc(DataType.INT64, (1,)))
    graph.output([graph.add("Reshape", x, shape, outputs=TensorDesc(DataType.FLOAT))])
    value = torch.randn(4, 5)
    assert torch.equal(run_graph(graph, [value])[0], value.reshape(20))


def test_a_storage_is_released_at_its_last_use() -> None:
    seen: list[weakref.ref[torch.Tensor]] = []

    def probe(x: torch.Tensor) -> torch.Tensor:
        seen.append(weakref.ref(x))
        return x + 1

    from air_geir.reference.kernels import kernel
    from air_geir.reference.kernels._registry import _KERNELS

    known = _KERNELS.pop("Relu6")
    kernel("Relu6")(lambda op: probe)
    try:
        graph = Graph("release")
        value = graph.data("x", FLOATS)
        for _ in range(4):
            value = graph.add("Relu6", value, outputs=FLOATS).output
        graph.output([value])
        gc.disable()
        run_graph(graph, [torch.zeros(2, 3)])
        assert [ref() is None for ref in seen[1:]] == [True, True, True]
    finally:
        gc.enable()
        _KERNELS["Relu6"] = known


def test_a_view_that_is_read_after_a_write_keeps_its_old_value() -> None:
    graph = Graph("aliases")
    x = graph.data("x", FLOATS)
    moved = graph.add("TensorMove", x, outputs=FLOATS)
    turned = graph.add("Transpose", moved, graph.const([1, 0]), outputs=TensorDesc(DataType.FLOAT, (3, 2)))
    written = graph.add("Assign", moved, graph.const(torch.zeros(2, 3)), outputs=FLOATS)
    graph.output([turned.output, written.output])
    value = torch.randn(2, 3)
    old, new = run_graph(graph, [value])
    assert torch.equal(old, value.t())
    assert torch.equal(new, torch.zeros(2, 3))


def test_a_constant_is_never_written() -> None:
    graph = Graph("constants")
    x = graph.data("x", FLOATS)
    constant = graph.const(torch.zeros(2, 3))
    written = graph.add("Assign", constant, x, outputs=FLOATS)
    graph.output([written])
    program = graph
    assert torch.equal(run_graph(program, [torch.ones(2, 3)])[0], torch.ones(2, 3))
    assert torch.equal(constant.node.attr("value").tensor(), torch.zeros(2, 3))


def test_every_operator_type_without_a_kernel_is_named_with_its_place() -> None:
    graph = Graph("missing")
    x = graph.data("x", FLOATS)
    first = graph.add("Dawsn", x, outputs=FLOATS, name="here")
    graph.output([graph.add("Spence", first, outputs=FLOATS)])
    with pytest.raises(EngineError, match=r"no kernel for 2 operator types: Dawsn at here; Spence"):
        run_graph(graph, [torch.ones(2, 3)])


def test_the_engine_is_always_there() -> None:
    assert ReferenceEngine().unavailable() is None
    assert len(kernel_types()) > 200


@pytest.mark.parametrize("file", ["m\udcc3.py", "m\r.py", "m\n.py", "m\0.py"])
def test_the_name_of_the_users_file_may_have_any_letters(file: str) -> None:
    graph = Graph("named")
    node = graph.add("Relu", graph.data("x", FLOATS), outputs=FLOATS)
    node.origin = Origin("relu", f"{file}:1")
    graph.output([node.output])
    assert torch.equal(run_graph(graph, [torch.full((2, 3), -1.0)])[0], torch.zeros(2, 3))
