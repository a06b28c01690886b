"""Host parameters: exact per key, out of the key, checked against the schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import SymInt, Tensor
from torch.fx import Graph, GraphModule

from aclgraph_backend import settings, unpadded
from air_aclgraph import Executable, compile_graph, runtime_for
from air_aclgraph._slots import classify
from air_aclgraph._update import plan_updates
from air_aclgraph.errors import UpdateRefused
from air_fxpasses.tables import register_updatable, unregister_updatable

LIBRARY = torch.library.Library("air_aclgraph_update", "DEF")
LIBRARY.define("masked_sum(Tensor x, int[] lengths, float scale=1.0) -> Tensor")
LIBRARY.define("masked_sum.out(Tensor x, int[] lengths, float scale=1.0, *, Tensor(a!) out) -> Tensor(a!)")


def _masked_sum(x: Tensor, lengths: list[int], scale: float = 1.0) -> Tensor:
    return torch.stack([row[:length].sum() for row, length in zip(x, lengths, strict=True)]) * scale


def _masked_sum_out(x: Tensor, lengths: list[int], scale: float = 1.0, *, out: Tensor) -> Tensor:
    return out.copy_(_masked_sum(x, lengths, scale))


LIBRARY.impl("masked_sum", _masked_sum, "CPU")
LIBRARY.impl("masked_sum.out", _masked_sum_out, "CPU")
torch.library.register_fake("air_aclgraph_update::masked_sum", lambda x, lengths, scale=1.0: x.new_empty(len(x)),
                            lib=LIBRARY)  # fmt: skip
OP = torch.ops.air_aclgraph_update.masked_sum.default


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register_updatable("air_aclgraph_update::masked_sum.default", ("lengths",))
    yield
    unregister_updatable("air_aclgraph_update::masked_sum.default")


def symbol(name: str, value: int) -> SymInt:
    shapes = torch.fx.experimental.symbolic_shapes.ShapeEnv()
    source = torch._dynamo.source.ConstantSource(name)
    made = (
        shapes.create_unbacked_symint()
        if value < 0
        else shapes.create_symintnode(shapes.create_symbol(value, source), hint=value, source=source)
    )
    assert isinstance(made, SymInt)
    return made


def attention_like(*, layers: int = 2, size_too: bool = False) -> GraphModule:
    """`layers` updatable operators on rows of a matrix; the first length is also used elsewhere if asked."""
    graph = Graph()
    x, first, second = graph.placeholder("x"), graph.placeholder("first"), graph.placeholder("second")
    x.meta["val"] = torch.empty(2, 8)
    first.meta["val"], second.meta["val"] = symbol("first", 3), symbol("second", 5)
    outs = []
    for layer in range(layers):
        shorter = graph.call_function(_minus, (second, layer))
        shorter.meta["val"] = second.meta["val"]
        outs.append(graph.call_function(OP, (x, [first, shorter])))
        outs[-1].meta["val"] = torch.empty(2)
    if size_too:
        outs.append(graph.call_function(torch.ops.aten.mul.Scalar, (x, first)))
    graph.output((*outs,))
    return GraphModule(torch.nn.Module(), graph)


def _minus(value: int, amount: int) -> int:
    return value - amount


def compiled(gm: GraphModule, **options: object) -> Executable:
    return unpadded(gm, [torch.randn(2, 8), 3, 5], settings=settings("cpu", **options))


def test_N13_A34_a_length_changes_between_replays_without_a_capture() -> None:
    run = compiled(attention_like())
    for first, second in ((3, 5), (8, 2), (1, 8), (3, 5), (4, 4)):
        x = torch.randn(2, 8)
        found = run(x, first, second)
        for layer, value in enumerate(found):
            torch.testing.assert_close(value, _masked_sum(x, [first, second - layer]))
    assert run.stats()["captures"] == 1
    assert [u["parameters"] for u in run.explain()["updates"]] == [["lengths"], ["lengths"]]


def test_N13_W01_the_values_of_one_key_do_not_reach_another() -> None:
    run = compiled(attention_like(size_too=True))
    for first, second in ((3, 5), (8, 2), (3, 6), (8, 5), (3, 4)):
        x = torch.randn(2, 8)
        found = run(x, first, second)
        torch.testing.assert_close(found[0], _masked_sum(x, [first, second]))
        torch.testing.assert_close(found[1], _masked_sum(x, [first, second - 1]))
        torch.testing.assert_close(found[2], x * first)
    assert run.stats()["captures"] == 2
    assert {entry["key"] for entry in run.explain()["keys"]} == {(3,), (8,)}


def test_N13_operators_with_the_same_values_get_one_mapping_and_others_their_own() -> None:
    graph = Graph()
    x, first, second = graph.placeholder("x"), graph.placeholder("first"), graph.placeholder("second")
    x.meta["val"] = torch.empty(2, 8)
    first.meta["val"], second.meta["val"] = symbol("first", 3), symbol("second", 5)
    given: list[Any] = [
        [first, second],
        [second, first],
        [first, second],
        [first, 3],
        [first, 3.0],
        (first, second),
    ]
    outs = [graph.call_function(OP, (x, lengths)) for lengths in given]
    graph.output((*outs,))
    gm = GraphModule(torch.nn.Module(), graph)
    runtime = runtime_for(torch.device("cpu"))
    slots = classify(gm, [torch.ones(2, 8), 3, 5], set(), runtime.device)
    plan = plan_updates(gm, slots, runtime)
    assert plan is not None
    values = plan.values([torch.ones(2, 8), 3, 5])
    assert [v["lengths"] for v in values] == [[3, 5], [5, 3], [3, 5], [3, 3], [3, 3.0], [3, 5]]
    assert values[0] is values[2]
    assert len({id(value) for value in values}) == 5
    assert type(values[4]["lengths"][1]) is float


def test_N13_a_value_the_device_computes_is_refused_with_the_parameter() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    total = graph.call_function(torch.ops.aten.sum.default, (x,))
    graph.output((graph.call_function(OP, (x, [total, total])),))
    gm = GraphModule(torch.nn.Module(), graph)
    with pytest.raises(UpdateRefused, match=r"masked_sum.*lengths is computed by aten.sum") as caught:
        compile_graph(gm, [torch.randn(2, 8)])
    assert caught.value.parameter == "lengths"


def test_constant_lengths_need_no_update() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(OP, (x, [3, 4])),))
    run = compile_graph(GraphModule(torch.nn.Module(), graph), [torch.randn(2, 8)])
    for _ in range(3):
        x_now = torch.randn(2, 8)
        torch.testing.assert_close(run(x_now)[0], _masked_sum(x_now, [3, 4]))
    assert run.explain()["updates"] == []


def test_a_parameter_the_schema_lacks_is_refused_when_it_is_registered() -> None:
    with pytest.raises(Exception, match="has no parameter nonsense"):
        register_updatable("air_aclgraph_update::masked_sum.out", ("nonsense",))


LIBRARY.define(
    "picky_sum(Tensor x, Tensor? mask, int[]? lengths, *, ScalarType? dtype=None, Device? device=None) -> Tensor"
)


def _picky_sum(
    x: Tensor,
    mask: Tensor | None,
    lengths: list[int] | None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> Tensor:
    kept = x if mask is None else x * mask
    return torch.stack([row[:length].sum() for row, length in zip(kept, lengths or (), strict=True)]).to(
        dtype
    )


LIBRARY.impl("picky_sum", _picky_sum, "CPU")
PICKY = torch.ops.air_aclgraph_update.picky_sum.default


def test_W18_arguments_that_are_none_types_or_devices_are_no_obstacle() -> None:
    register_updatable("air_aclgraph_update::picky_sum.default", ("lengths",))
    try:
        graph = Graph()
        x, first = graph.placeholder("x"), graph.placeholder("first")
        first.meta["val"] = symbol("first", 3)
        keywords: dict[str, Any] = {"dtype": torch.float64, "device": torch.device("cpu")}
        graph.output((graph.call_function(PICKY, (x, None, [first, 4]), keywords),))
        run = compile_graph(
            GraphModule(torch.nn.Module(), graph), [torch.randn(2, 8), 3], settings=settings("cpu")
        )
        for length in (3, 8, 1):
            x_now = torch.randn(2, 8)
            (found,) = run(x_now, length)
            torch.testing.assert_close(found, _picky_sum(x_now, None, [length, 4], dtype=torch.float64))
        assert run.stats()["captures"] == 1
    finally:
        unregister_updatable("air_aclgraph_update::picky_sum.default")


def test_a_number_of_values_that_differs_from_the_graphs_is_refused() -> None:
    run = compiled(attention_like())
    run(torch.randn(2, 8), 3, 5)
    replay_with = run.recording_of(()).replay_with
    assert replay_with is not None
    with pytest.raises(ValueError, match=r"shorter than|longer than"):
        replay_with([{"lengths": [1, 2]}])
