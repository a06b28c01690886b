"""The generated function between a caller and an engine."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

import pytest
import torch

from air_geir.engines import bind, source_of
from air_geir.errors import EngineError, WriteRefused
from air_geir.ir import DataType, Graph, TensorDesc, minimum, symbol
from air_geir.program import (
    ArgInput,
    ArgOutput,
    ConstantOutput,
    GraphOutput,
    HostStep,
    InputBinding,
    OffsetInput,
    OutputBinding,
    Program,
    SeedInput,
    SizeOutput,
    SymbolSource,
    SymInput,
    SymPackInput,
    ViewInput,
    ViewOutput,
)

F32 = TensorDesc(DataType.FLOAT, (2, 2))
S0 = symbol("s0")


class Recorder:
    """An engine's product that records what it is called with and gives back its inputs."""

    def __init__(self) -> None:
        self.inputs: Sequence[torch.Tensor] = ()
        self.assigned: Sequence[torch.Tensor | None] = ()

    def __call__(
        self, inputs: Sequence[torch.Tensor], assigned: Sequence[torch.Tensor | None]
    ) -> Sequence[torch.Tensor]:
        self.inputs, self.assigned = inputs, assigned
        for target in assigned:
            if target is not None:
                target.fill_(7)
        return [t if t is not None else torch.ones(1) for t in assigned] or [torch.ones(1)]

    def stats(self) -> Mapping[str, object]:
        return {}

    def close(self) -> None:
        pass


def program(
    inputs: tuple[InputBinding, ...], outputs: tuple[OutputBinding, ...], args: int, **more: object
) -> Program:
    graph = Graph("g")
    ports = [graph.data(f"x{i}", F32) for i in range(len(inputs))]
    graph.output([graph.add("Abs", ports[0], outputs=F32)] if ports else [])
    return Program(graph, inputs, outputs, args, **more)  # type: ignore[arg-type]  # keywords of a test


def test_a_plain_call_is_two_lines() -> None:
    made = program((ArgInput(0), ArgInput(1)), (GraphOutput(0),), 2)
    assert source_of(made) == "def call(a0, a1):\n    r = run((a0, a1,), ())\n    return [r[0]]\n"


def test_sizes_are_computed_from_where_they_are_found() -> None:
    inputs = (SymInput(S0 * 2), SymPackInput((S0, minimum(symbol("s1"), 3))))
    symbols = {"s0": SymbolSource(0, 1), "s1": SymbolSource(1)}
    made = program(inputs, (SizeOutput(S0 + 1), GraphOutput(0)), 2, symbols=symbols)
    recorder = Recorder()
    results = bind(made, recorder)(torch.zeros(3, 5), 9)
    assert [t.tolist() for t in recorder.inputs] == [10, [5, 3]]
    assert all(t.dtype is torch.int64 for t in recorder.inputs)
    assert results[0] == 6


def test_a_symbol_without_source_is_an_error() -> None:
    with pytest.raises(EngineError, match="no argument carries the size s0"):
        source_of(program((SymInput(S0),), (), 0))


def test_results_that_are_arguments_are_not_computed() -> None:
    steps = (
        HostStep(torch.ops.aten.as_strided.default, ArgOutput(0), ((2, S0), (1, 2)), {"storage_offset": 0}),
        HostStep(torch.ops.aten.unbind.int, ViewOutput(0)),
        HostStep(operator.getitem, ViewOutput(1), (1,)),
        HostStep(torch.ops.aten.view.dtype, ViewOutput(2), (torch.int32,)),
    )
    outputs = (ArgOutput(0), ViewOutput(0), ConstantOutput(None), GraphOutput(0), ViewOutput(3))
    made = program((ArgInput(0),), outputs, 1, symbols={"s0": SymbolSource(0, 0)}, after=steps)
    value = torch.arange(4.0).reshape(2, 2)
    same, view, nothing, _, bits = bind(made, Recorder())(value)
    assert same is value
    assert torch.equal(view, value.t())
    assert view.data_ptr() == value.data_ptr()
    assert nothing is None
    assert torch.equal(bits, value.t()[1].view(torch.int32))
    value[1, 1] = 9.0
    assert bits.view(torch.float32)[1] == 9.0


def test_views_of_results_are_made_over_one_result() -> None:
    steps = (
        HostStep(torch.ops.aten.t.default, GraphOutput(0)),
        HostStep(torch.ops.aten.select.int, ViewOutput(0), (0, 0)),
    )
    made = program((ArgInput(0),), (GraphOutput(0), ViewOutput(1)), 1, after=steps)
    run = bind(made, lambda inputs, assigned: [inputs[0] + 1])  # type: ignore[arg-type]  # only called
    base, view = run(torch.zeros(2, 2))
    view.fill_(7)
    assert base.tolist() == [[7, 1], [7, 1]]


def test_a_size_that_only_the_graph_knows_is_read_from_an_output() -> None:
    symbols = {"u0": SymbolSource(0, computed=True), "u1": SymbolSource(1, 0, computed=True)}
    u0, u1 = symbol("u0"), symbol("u1")
    step = HostStep(torch.ops.aten.slice.Tensor, ArgOutput(0), (0, 0, u0))
    made = program((ArgInput(0),), (ViewOutput(0), SizeOutput(u0 + u1)), 1, symbols=symbols, after=(step,))
    run = bind(made, lambda inputs, assigned: [torch.tensor(3), torch.zeros(4, 2)])  # type: ignore[arg-type]  # only called
    view, number = run(torch.arange(6.0))
    assert view.tolist() == [0, 1, 2]
    assert number == 7


def test_a_view_for_the_graph_is_dense_and_a_copy_where_the_graph_writes() -> None:
    def view(arg: int) -> HostStep:
        return HostStep(torch.ops.aten.as_strided.default, ArgOutput(arg), ((S0,), (1,), symbol("at")))

    symbols = {"s0": SymbolSource(0, 0), "at": SymbolSource(0, offset=True)}
    inputs = (ArgInput(0), ViewInput(0, 0), ArgInput(1), ViewInput(1, 1))
    made = program(inputs, (), 2, symbols=symbols, before=(view(0), view(1)), assigned={0: 1})
    recorder = Recorder()
    whole = torch.arange(12.0)
    bind(made, recorder)(whole[2:6].view(2, 2), whole[6:10].view(2, 2))
    read, copied = recorder.inputs[1], recorder.inputs[3]
    assert read.tolist() == copied.tolist() == [2, 3]
    assert read.data_ptr() == whole[2:].data_ptr()
    assert copied.untyped_storage().data_ptr() != whole.untyped_storage().data_ptr()


def test_an_operator_that_writes_into_a_strided_argument_reaches_it() -> None:
    graph = Graph("g")
    x = graph.data("x", F32)
    graph.add("Assign", x, graph.const(torch.ones(2, 2)), outputs=F32)
    graph.output([])

    def run(inputs: Sequence[torch.Tensor], assigned: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
        inputs[0].fill_(7)
        return []

    base = torch.zeros(2, 3)
    made = Program(graph, (ArgInput(0, contiguous=False),), (), 1)
    bind(made, run)(base.t())  # type: ignore[arg-type]  # only called
    assert torch.equal(base, torch.full((2, 3), 7.0))


def test_an_assigned_output_is_the_argument_itself() -> None:
    made = program((ArgInput(0),), (GraphOutput(0),), 1, assigned={0: 0})
    value = torch.zeros(2, 2)
    recorder = Recorder()
    (result,) = bind(made, recorder)(value)
    assert recorder.assigned[0] is value
    assert result is value
    assert torch.equal(value, torch.full((2, 2), 7.0))


def test_a_strided_argument_is_made_dense_and_written_back() -> None:
    made = program((ArgInput(0, contiguous=False),), (), 1, assigned={0: 0})
    base = torch.zeros(2, 3)
    recorder = Recorder()
    bind(made, recorder)(base.t())
    assert recorder.inputs[0].is_contiguous()
    assert torch.equal(base, torch.full((2, 3), 7.0))


def test_a_strided_argument_that_is_only_written_is_written_back() -> None:
    made = program((ArgInput(1),), (), 2, assigned={0: 0})
    made.strided.add(0)
    base = torch.zeros(2, 3)
    recorder = Recorder()
    bind(made, recorder)(base.t(), torch.zeros(2, 2))
    assert recorder.assigned[0] is not None
    assert recorder.assigned[0].is_contiguous()
    assert torch.equal(base, torch.full((2, 3), 7.0))


def test_seed_and_offsets_are_read_at_each_call() -> None:
    made = program((SeedInput(), OffsetInput((10, 3))), (), 0)
    recorder = Recorder()
    call = bind(made, recorder)

    def drawn() -> list[object]:
        call()
        return [t.tolist() for t in recorder.inputs]

    torch.manual_seed(1)
    first, second = drawn(), drawn()
    torch.manual_seed(1)
    assert drawn() == first
    assert first[1] != second[1], "each call draws other numbers"
    torch.manual_seed(2)
    assert drawn()[0] != first[0]


def test_errors_show_the_generated_source(capsys: pytest.CaptureFixture[str]) -> None:
    made = program((SymInput(S0),), (), 1, symbols={"s0": SymbolSource(0, 0)})
    with pytest.raises(AttributeError) as caught:
        bind(made, Recorder())(3)
    assert any("a0.shape[0]" in str(entry.statement) for entry in caught.traceback)


def test_what_was_made_in_inference_mode_is_written_in_it_alone() -> None:
    made = program((ArgInput(1),), (GraphOutput(0),), 2, assigned={0: 0})
    recorder = Recorder()
    run = bind(made, recorder)
    with torch.inference_mode():
        held = torch.zeros(2, 2)
        (inside,) = run(held, held)
    assert torch.equal(inside, torch.full((2, 2), 7.0))
    recorder.assigned = ()
    with pytest.raises(WriteRefused, match="argument 0 was made in inference mode") as refused:
        run(held, torch.zeros(2, 2))
    assert "pass a clone" in str(refused.value)
    assert not recorder.assigned
    (outside,) = run(torch.zeros(2, 2), held)  # what is only read may be of any mode
    assert not outside.is_inference()
