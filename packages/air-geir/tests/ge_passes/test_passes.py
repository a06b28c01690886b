"""Passes over programs: what they change, what they refuse, and that results stay the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from air_geir.engines import EngineOptions, bind
from air_geir.errors import EngineError
from air_geir.ge_passes import (
    Annotate,
    AssignToOutput,
    DropCopies,
    DropUnusedInputs,
    OrderPrefetches,
    OrderSideEffects,
    PackSizes,
    TransposeAfterBitcast,
    TransposeInProduct,
    WriteWithoutCopy,
    optimize,
)
from air_geir.ir import DataType, Graph, Origin, Placement, Port, TensorDesc, symbol
from air_geir.program import ArgInput, GraphOutput, InputBinding, Program, SymbolSource, SymInput
from air_geir.reference import ReferenceEngine
from air_geir.verify import verify

F32 = TensorDesc(DataType.FLOAT, (4, 2))
I64 = TensorDesc(DataType.INT64, ())
ROWS = TensorDesc(DataType.INT64, (2, 1))


def program(
    graph: Graph, inputs: Sequence[InputBinding] | None = None, results: int | None = None
) -> Program:
    bindings = tuple(inputs) if inputs is not None else tuple(ArgInput(i) for i in range(len(graph.inputs)))
    count = len(graph.outputs) if results is None else results
    args = [b.arg for b in bindings if isinstance(b, ArgInput)]
    return Program(graph, bindings, tuple(GraphOutput(i) for i in range(count)), len(args))


def run(made: Program, *args: torch.Tensor) -> list[torch.Tensor]:
    verify(made.graph)
    compiled = ReferenceEngine().compile(made, EngineOptions({}, {}))
    return bind(made, compiled)(*args)


def cache_program(*, extra: Callable[[Graph, Port, Port], Port | None] | None = None) -> Program:
    """cache[rows] = update, as lowered: a protective copy, the in-place operator, and the copy back."""
    graph = Graph("cache")
    cache = graph.data("cache", F32)
    rows = graph.data("rows", ROWS)
    update = graph.data("update", TensorDesc(DataType.FLOAT, (2, 2)))
    safe = graph.add("TensorMove", cache, outputs=F32)
    new = graph.add("ScatterNdUpdate", safe, rows, update, outputs=F32)
    value = extra(graph, cache, new.output) if extra else None
    graph.add("Assign", cache, new, outputs=F32)
    result = value if value is not None else graph.add("Abs", new, outputs=F32).output
    graph.output([result])
    return program(graph)


def cache_args() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(4, 2), torch.tensor([[1], [3]]), torch.randn(2, 2)


def test_a_cache_is_written_without_a_copy() -> None:
    made = cache_program()
    report = optimize(made)
    assert [n.op_type for n in made.graph] == ["Data", "Data", "Data", "ScatterNdUpdate", "Abs", "NetOutput"]
    assert made.assigned == {1: 0}
    assert not report.refusals
    cache, rows, update = cache_args()
    expected = cache.clone()
    expected[rows[:, 0]] = update
    address = cache.data_ptr()
    (result,) = run(made, cache, rows, update)
    assert torch.equal(cache, expected)
    assert cache.data_ptr() == address
    assert torch.equal(result, expected.abs())


def test_a_copy_stays_when_the_old_value_is_read() -> None:
    def read_old(graph: Graph, cache: Port, new: Port) -> Port:
        return graph.add("Add", cache, new, outputs=F32).output

    made = cache_program(extra=read_old)
    result = WriteWithoutCopy()(made)
    assert result.changed == 0
    assert [r.reason for r in result.refusals] == ["the old value of cache is read by Add"]
    optimize(made)
    cache, rows, update = cache_args()
    old, expected = cache.clone(), cache.clone()
    expected[rows[:, 0]] = update
    (total,) = run(made, cache, rows, update)
    assert torch.equal(cache, expected)
    assert torch.equal(total, old + expected)


def test_a_copy_goes_when_the_old_value_is_read_in_vain() -> None:
    def read_in_vain(graph: Graph, cache: Port, new: Port) -> None:
        graph.add("Neg", graph.add("Abs", cache, outputs=F32), outputs=F32)

    made = cache_program(extra=read_in_vain)
    optimize(made)
    assert [n.op_type for n in made.graph] == ["Data", "Data", "Data", "ScatterNdUpdate", "Abs", "NetOutput"]


def test_a_copy_stays_when_the_old_value_is_fetched() -> None:
    def fetch(graph: Graph, cache: Port, new: Port) -> None:
        graph.add("Cmo", cache, attrs={"max_size": 64})

    result = WriteWithoutCopy()(cache_program(extra=fetch))
    assert [r.reason for r in result.refusals] == ["the old value of cache is read by Cmo"]


def test_a_copy_stays_when_it_is_read_elsewhere() -> None:
    graph = Graph("g")
    cache, rows = graph.data("cache", F32), graph.data("rows", ROWS)
    update = graph.data("update", TensorDesc(DataType.FLOAT, (2, 2)))
    safe = graph.add("TensorMove", cache, outputs=F32)
    new = graph.add("ScatterNdUpdate", safe, rows, update, outputs=F32)
    graph.add("Assign", cache, new, outputs=F32)
    graph.output([graph.add("Abs", safe, outputs=F32)])
    result = WriteWithoutCopy()(program(graph))
    assert [r.reason for r in result.refusals] == ["the protective copy is read elsewhere too"]


def test_an_assign_becomes_an_output_tied_to_the_input() -> None:
    graph = Graph("g")
    x = graph.data("x", F32)
    new = graph.add("Neg", x, outputs=F32)
    graph.add("Assign", x, new, outputs=F32)
    graph.output([new])
    made = program(graph, results=0)
    assert AssignToOutput()(made).changed == 1
    assert made.assigned == {0: 0}, "a value that is an output already is tied where it is"
    value = torch.randn(4, 2)
    expected = -value
    run(made, value)
    assert torch.equal(value, expected)


def test_a_result_that_is_also_written_into_an_input_is_a_tensor_of_its_own() -> None:
    graph = Graph("g")
    x = graph.data("x", F32)
    new = graph.add("Neg", x, outputs=F32)
    graph.add("Assign", x, new, outputs=F32)
    graph.output([new])
    made = program(graph)
    assert AssignToOutput()(made).changed == 1
    assert made.assigned == {1: 0}
    value = torch.randn(4, 2)
    expected = -value
    (result,) = run(made, value)
    value.zero_()
    assert torch.equal(result, expected)


def test_an_input_copied_into_another_is_moved() -> None:
    graph = Graph("g")
    x, y = graph.data("x", F32), graph.data("y", F32)
    graph.add("Assign", x, y, outputs=F32)
    graph.output([graph.add("Neg", y, outputs=F32)])
    made = program(graph)
    optimize(made)
    a, b = torch.randn(4, 2), torch.randn(4, 2)
    run(made, a, b)
    assert torch.equal(a, b)


def test_a_copy_of_a_computed_value_is_dropped() -> None:
    graph = Graph("g")
    x = graph.data("x", F32)
    value = graph.add("Exp", x, outputs=F32)
    copy = graph.add("TensorMove", value, outputs=F32)
    graph.add("Assign", x, copy, outputs=F32)
    graph.output([graph.add("Neg", copy, outputs=F32)])
    made = program(graph)
    assert DropCopies()(made).changed == 1
    optimize(made)
    assert not list(graph.of_type("TensorMove", "Assign"))
    argument = torch.randn(4, 2)
    expected = argument.exp()
    (result,) = run(made, argument)
    assert torch.equal(argument, expected)
    assert torch.equal(result, -expected)


def test_a_copy_stays_when_it_is_written_or_leaves_beside_its_source() -> None:
    graph = Graph("g")
    x, rows = graph.data("x", F32), graph.data("rows", ROWS)
    update = graph.data("update", TensorDesc(DataType.FLOAT, (2, 2)))
    value = graph.add("Exp", x, outputs=F32)
    written = graph.add("TensorMove", value, outputs=F32)
    scattered = graph.add("ScatterNdUpdate", written, rows, update, outputs=F32)
    clone = graph.add("TensorMove", value, outputs=F32)
    graph.output([value, clone, scattered])
    made = program(graph)
    assert DropCopies()(made).changed == 0


def test_a_swap_of_two_inputs_keeps_both_old_values() -> None:
    graph = Graph("g")
    x, y = graph.data("x", F32), graph.data("y", F32)
    kept = graph.add("TensorMove", x, outputs=F32)
    graph.add("Assign", x, y, outputs=F32)
    graph.add("Assign", y, kept, outputs=F32)
    graph.output([])
    made = program(graph)
    optimize(made)
    a, b = torch.randn(4, 2), torch.randn(4, 2)
    old_a, old_b = a.clone(), b.clone()
    run(made, a, b)
    assert torch.equal(a, old_b)
    assert torch.equal(b, old_a)


def test_one_value_written_to_two_inputs_is_tied_twice() -> None:
    graph = Graph("g")
    x, y = graph.data("x", F32), graph.data("y", F32)
    new = graph.add("Add", x, y, outputs=F32)
    graph.add("Assign", x, new, outputs=F32)
    graph.add("Assign", y, new, outputs=F32)
    graph.output([])
    made = program(graph)
    assert AssignToOutput()(made).changed == 2
    assert sorted(made.assigned.values()) == [0, 1]
    a, b = torch.randn(4, 2), torch.randn(4, 2)
    expected = a + b
    run(made, a, b)
    assert torch.equal(a, expected)
    assert torch.equal(b, expected)


def test_an_assign_whose_input_is_read_later_stays_in_order() -> None:
    graph = Graph("g")
    x = graph.data("x", F32)
    before = graph.add("Abs", x, outputs=F32)
    write = graph.add("Assign", x, graph.add("Neg", x, outputs=F32), outputs=F32)
    after = graph.add("Exp", x, outputs=F32)
    graph.output([before, after])
    made = program(graph)
    result = AssignToOutput()(made)
    assert [r.reason for r in result.refusals] == ["the new value is read through the input by Exp"]
    assert before in write.control_inputs
    assert write in after.control_inputs
    assert write in graph.net_output.control_inputs
    value = torch.randn(4, 2)
    old = value.clone()
    assert [torch.equal(a, b) for a, b in zip(run(made, value), (old.abs(), (-old).exp()), strict=True)] == [
        True
    ] * 2
    assert torch.equal(value, -old)


def test_an_input_written_twice_ends_with_the_last_value() -> None:
    graph = Graph("g")
    x = graph.data("x", F32)
    for op_type in ("Neg", "Exp"):
        graph.add("Assign", x, graph.add(op_type, x, outputs=F32), outputs=F32)
    graph.output([])
    made = program(graph)
    assert {r.reason for r in AssignToOutput()(made).refusals} == {"x is written more than once"}
    value = torch.randn(4, 2)
    expected = (-value).exp()
    run(made, value)
    assert torch.equal(value, expected)


def test_a_refusal_carries_the_line_of_the_user() -> None:
    graph = Graph("g")
    x = graph.data("x", F32)
    with graph.origin_of(Origin("copy_", "model.py:7  self.cache.copy_(y)")):
        graph.add("Assign", graph.add("Abs", x, outputs=F32), x, outputs=F32)
    graph.output([])
    (refused,) = AssignToOutput()(program(graph)).refusals
    assert "model.py:7" in str(refused)
    assert refused.reason == "Abs is not a tensor of the caller"


def test_sizes_the_caller_knows_become_one_input() -> None:
    graph = Graph("g")
    x = graph.data("x", TensorDesc(DataType.FLOAT, (symbol("s0"), 2)))
    n = graph.data("n", I64)
    m = graph.data("m", I64)
    shapes = [graph.add("Pack", [n, m], N=2, outputs=TensorDesc(DataType.INT64, (2,))) for _ in range(2)]
    out = [graph.add("BroadcastTo", x, s, outputs=TensorDesc(DataType.FLOAT, None)) for s in shapes]
    graph.output(out)
    inputs: list[InputBinding] = [ArgInput(0), SymInput(symbol("s0")), SymInput(2)]
    made = Program(
        graph, tuple(inputs), (GraphOutput(0), GraphOutput(1)), 1, symbols={"s0": SymbolSource(0, 0)}
    )
    assert PackSizes()(made).changed == 2
    DropUnusedInputs()(made)
    assert [n.op_type for n in graph] == ["Data", "Data", "BroadcastTo", "BroadcastTo", "NetOutput"]
    assert (
        graph.inputs[1].output.desc.placement is Placement.HOST
        or graph.inputs[0].output.desc.placement is Placement.HOST
    )
    value = torch.randn(3, 2)
    for result in run(made, value):
        assert torch.equal(result, value)


def test_a_pack_with_a_computed_size_stays() -> None:
    graph = Graph("g")
    n = graph.data("n", I64)
    pack = graph.add(
        "Pack", [n, graph.add("Neg", n, outputs=I64)], N=2, outputs=TensorDesc(DataType.INT64, (2,))
    )
    graph.output([pack])
    assert PackSizes()(program(graph, [SymInput(3)], 1)).changed == 0


def test_unused_inputs_are_dropped_and_indices_dense() -> None:
    graph = Graph("g")
    ports = [graph.data(f"x{i}", F32) for i in range(4)]
    graph.add("Abs", ports[0], outputs=F32)
    graph.output([graph.add("Add", ports[1], ports[3], outputs=F32)])
    made = program(graph)
    DropUnusedInputs()(made)
    assert [n.name for n in graph.inputs] == ["x1", "x3"]
    assert [n.attr("index") for n in graph.inputs] == [0, 1]
    assert made.inputs == (ArgInput(1), ArgInput(3))


def test_side_effects_keep_their_order_and_stay_alive() -> None:
    graph = Graph("g")
    x = graph.data("x", F32)
    prints = [graph.add("PrintV2", x) for _ in range(3)]
    graph.output([graph.add("Abs", x, outputs=F32)])
    made = program(graph)
    assert OrderSideEffects()(made).changed == 3
    assert prints[1].control_inputs == (prints[0],)
    assert graph.net_output.control_inputs == (prints[2],)
    assert OrderSideEffects()(made).changed == 0, "running it again changes nothing"
    assert graph.erase_dead() == 0 or all(p.graph for p in prints)


def test_a_print_comes_before_the_writer_of_what_it_prints() -> None:
    graph = Graph("g")
    x = graph.data("x", F32)
    first = graph.add("PrintV2", x)
    write = graph.add("Assign", x, graph.add("Neg", x, outputs=F32), outputs=F32)
    second = graph.add("PrintV2", x)
    graph.output([])
    made = program(graph)
    optimize(made)
    assert write.graph is graph, "the print after it must see the new value in place"
    assert first in write.control_inputs
    assert write in second.control_inputs


def test_prefetches_are_chained() -> None:
    graph = Graph("g")
    x = graph.data("x", F32)
    nodes = [graph.add("Cmo", x, max_size=64) for _ in range(2)]
    graph.output([])
    OrderPrefetches()(program(graph))
    assert nodes[1].control_inputs == (nodes[0],)
    assert graph.net_output.control_inputs == (nodes[1],)


def quantised(
    perm: Sequence[int], *, shared: bool = False, source: DataType = DataType.UINT8
) -> tuple[Graph, Program]:
    graph = Graph("q")
    x = graph.data("x", TensorDesc(DataType.FLOAT8_E4M3FN, (4, 8)))
    ports = []
    for name, shape in (("w", (16, 8)), ("s", (16, 1))):
        raw = graph.data(name, TensorDesc(source, shape))
        moved = graph.add("Transpose", raw, graph.const(list(perm)), outputs=TensorDesc(source, shape[::-1]))
        ports.append(
            graph.add(
                "Bitcast",
                moved,
                type=DataType.FLOAT8_E4M3FN,
                outputs=TensorDesc(DataType.FLOAT8_E4M3FN, shape[::-1]),
            )
        )
    mm = graph.add(
        "QuantBatchMatmulV4",
        x,
        ports[0],
        None,
        None,
        ports[1],
        dtype=0,
        outputs=TensorDesc(DataType.FLOAT, (4, 16)),
    )
    graph.output([mm, ports[0]] if shared else [mm])
    return graph, program(graph)


def test_the_product_takes_in_the_transposes() -> None:
    graph, made = quantised([1, 0])
    assert TransposeInProduct()(made).changed == 1
    mm = next(graph.of_type("QuantBatchMatmulV4"))
    assert mm.attr("transpose_x2") is True
    assert not list(graph.of_type("Transpose"))
    weight = mm.input("x2")
    assert weight is not None
    assert weight.node.op_type == "Bitcast"
    assert weight.desc.shape == (16, 8)
    verify(graph)


def test_a_shared_transpose_stays_for_its_other_reader() -> None:
    graph, made = quantised([1, 0], shared=True)
    assert TransposeInProduct()(made).changed == 1
    assert len(list(graph.of_type("Transpose"))) == 1
    assert graph.outputs[1].node.op_type == "Bitcast"
    assert graph.outputs[1].desc.shape == (8, 16)
    verify(graph)


def test_another_permutation_is_refused() -> None:
    graph, made = quantised([0, 1])
    result = TransposeInProduct()(made)
    assert result.changed == 0
    assert "is not a swap of the last two dims" in result.refusals[0].reason
    assert next(graph.of_type("QuantBatchMatmulV4")).attr("transpose_x2") is False


def test_a_bitcast_that_changes_the_width_is_refused() -> None:
    _, made = quantised([1, 0], source=DataType.INT32)
    assert "changes the width" in TransposeInProduct()(made).refusals[0].reason


def test_unfed_optional_inputs_are_no_obstacle() -> None:
    graph = Graph("q")
    x, w = graph.data("x", F32), graph.data("w", F32)
    graph.output([graph.add("QuantBatchMatmulV4", x, w, dtype=0, outputs=F32)])
    assert TransposeInProduct()(program(graph)).changed == 0


def test_control_edges_do_not_shift_inputs() -> None:
    graph, made = quantised([1, 0])
    mm = next(graph.of_type("QuantBatchMatmulV4"))
    mm.run_after(graph.inputs[0])
    assert TransposeInProduct()(made).changed == 1


def test_the_transpose_goes_behind_the_bitcast() -> None:
    graph = Graph("q")
    x = graph.data("x", TensorDesc(DataType.INT8, (4, 8)))
    raw = graph.data("w", TensorDesc(DataType.UINT8, (16, 8)))
    moved = graph.add("Transpose", raw, graph.const([1, 0]), outputs=TensorDesc(DataType.UINT8, (8, 16)))
    weight = graph.add("Bitcast", moved, type=DataType.INT8, outputs=TensorDesc(DataType.INT8, (8, 16)))
    scale = graph.data("s", TensorDesc(DataType.UINT64, (16,)))
    mm = graph.add(
        "QuantBatchMatmulV3", x, weight, scale, dtype=1, outputs=TensorDesc(DataType.FLOAT16, (4, 16))
    )
    graph.output([mm])
    assert TransposeAfterBitcast()(program(graph)).changed == 1
    value = mm.input("x2")
    assert value is not None
    assert value.node.op_type == "Transpose"
    source = value.node.inputs[0]
    assert source is not None
    assert source.node.op_type == "Bitcast"
    assert source.desc.shape == (16, 8)
    verify(graph)


def test_an_output_of_unknown_type_is_refused() -> None:
    graph = Graph("g")
    graph.output([graph.add("Abs", graph.data("x", F32))])
    with pytest.raises(EngineError, match="the type of output Abs:0 is not known"):
        Annotate()(program(graph))


def test_the_report_explains_itself() -> None:
    report = optimize(cache_program())
    assert "write_without_copy: 1 changed" in report.explain()
