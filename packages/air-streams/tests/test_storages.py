"""Which memory a node touches, compared with what real tensors do."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import _effects, register_hidden_writes
from air_streams._storages import WHOLE, Memory, common, read_memory, without

aten = torch.ops.aten
MORE_PROGRAMS = (("fake", 150), ("symbolic", 25))


def random_views(source: random.Random) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function that makes views, copies and in-place changes of a 4x6 tensor at random."""
    steps = [source.randrange(10) for _ in range(8)]
    picks = [source.random() for _ in range(8)]

    def function(x: torch.Tensor) -> torch.Tensor:
        values = [x]
        for step, pick in zip(steps, picks, strict=True):
            values.extend(_step(step, values[int(pick * len(values))]))
        return values[-1]

    return function


def _step(step: int, v: torch.Tensor) -> list[torch.Tensor]:
    def split() -> list[torch.Tensor]:
        return list(v.split(2, 0)) if v.dim() and v.shape[0] > 2 else [v.clone()]

    makers: list[Callable[[], list[torch.Tensor]]] = [
        lambda: [v[1:]] if v.dim() and v.shape[0] > 1 else [v.neg()],
        lambda: [v.t()] if v.dim() == 2 else [v.unsqueeze(0)],
        lambda: [v.select(0, v.shape[0] - 1)] if v.dim() else [v * 2],
        split,
        lambda: [v.add_(1) if 0 not in v.stride() else v.abs()],
        lambda: [v + 1],
        lambda: [v.unsqueeze(0).expand(2, *v.shape)],
        lambda: [v.clone(memory_format=torch.contiguous_format).view(-1)],
        lambda: list(v.unbind(0)) if v.dim() else [v.clone()],
        lambda: [v.fill_(3) if 0 not in v.stride() else v.abs()],
    ]
    return makers[step]()


class _Recorder(Interpreter):
    """Keeps the storage address and byte range of every real tensor."""

    def __init__(self, gm: GraphModule) -> None:
        super().__init__(gm)
        self.real: dict[Node, torch.Tensor] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, torch.Tensor) and n.op != "output":
            self.real[n] = result
        return result


def byte_range(value: torch.Tensor) -> tuple[int, int]:
    """First and one-past-last byte, by looking at every element."""
    offsets = [int(value.storage_offset()) * value.element_size()]
    for length, step in zip(value.shape, value.stride(), strict=True):
        offsets = [
            offset + place * step * value.element_size() for offset in offsets for place in range(length)
        ]
    return min(offsets), max(offsets) + value.element_size()


@pytest.mark.parametrize(
    ("mode", "programs"),
    [
        ("fake", 60),
        ("symbolic", 10),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE_PROGRAMS),
    ],
)
def test_W19_storages_and_byte_ranges_equal_those_of_real_tensors(
    mode: Literal["fake", "symbolic"], programs: int
) -> None:
    source = random.Random(4)
    ranges = 0
    for _ in range(programs):
        x = torch.arange(24.0).reshape(4, 6)
        gm = make_fx(random_views(source), tracing_mode=mode)(x.clone())
        recorder = _Recorder(gm)
        recorder.run(x)
        memory = read_memory(gm.graph)
        by_address: dict[int, object] = {}
        for node, value in recorder.real.items():
            (storage,) = memory.storages(node)
            address = value.untyped_storage().data_ptr()
            assert by_address.setdefault(address, storage) is storage, (gm.code, node)
            ranges += check_range(memory, node, value)
        assert len(set(map(id, by_address.values()))) == len(by_address), gm.code
    assert ranges > (1_000 * programs // 150 if mode == "fake" else -1)


def check_range(memory: Memory, node: Node, value: torch.Tensor) -> int:
    part = memory.values[node].parts[0]
    low, high = byte_range(value)
    assert part.region[0] <= low
    assert high <= part.region[1]
    return int(part.region == (low, high))


def accesses(function: Callable[..., Any], *args: torch.Tensor) -> Iterator[tuple[str, str, bool, bool]]:
    gm = make_fx(function, tracing_mode="fake")(*args)
    for node, found in read_memory(gm.graph).accesses.items():
        for access in found:
            yield node.name, access.storage.name, access.reads, access.writes


def test_an_in_place_operator_reads_and_writes_and_an_overwrite_only_writes() -> None:
    def change(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        x.fill_(2)
        return x.sum()

    assert list(accesses(change, torch.ones(3))) == [
        ("add_", "x_1", True, True),
        ("fill_", "x_1", False, True),
        ("sum_1", "x_1", True, False),
        ("sum_1", "sum_1", False, True),
    ]


def test_W25_operators_on_lists_of_tensors_touch_each_of_them() -> None:
    def change(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch._foreach_add_([x, y], 1)
        return torch.cat([x, y])

    assert list(accesses(change, torch.ones(2), torch.ones(2))) == [
        ("_foreach_add_", "x_1", True, True),
        ("_foreach_add_", "y_1", True, True),
        ("cat", "x_1", True, False),
        ("cat", "y_1", True, False),
        ("cat", "cat", False, True),
    ]


def test_several_results_are_several_storages() -> None:
    def sort(x: torch.Tensor) -> torch.Tensor:
        values, indices = torch.sort(x)
        return values + indices

    found = list(accesses(sort, torch.ones(3)))
    assert ("sort", "sort.0", False, True) in found
    assert ("add", "sort.1", True, False) in found


def test_an_out_argument_is_overwritten() -> None:
    def out(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch.neg(x, out=y)
        return y

    assert ("neg", "y_1", False, True) in list(accesses(out, torch.ones(3), torch.ones(3)))


def test_a_view_with_unknown_metadata_counts_as_its_whole_base_and_covers_nothing() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    view = graph.call_function(aten.slice.Tensor, (x, 0, 0, 1))
    fill = graph.call_function(aten.fill_.Scalar, (view, 1))
    graph.output(())
    (access,) = read_memory(graph).accesses[fill]
    assert access.region == WHOLE
    assert not access.covers


def test_the_range_of_a_view_is_relative_to_its_base_even_when_a_pass_moved_the_base() -> None:
    graph = torch.fx.Graph()
    buffer = graph.placeholder("buffer")
    buffer.meta["val"] = torch.empty(8)
    place = graph.call_function(aten.slice.Tensor, (buffer, 0, 4, 8))
    place.meta["val"] = buffer.meta["val"][4:8]
    made = graph.call_function(aten.neg.out, (place,), {"out": place})
    made.meta["val"] = torch.empty(4)
    part = graph.call_function(aten.slice.Tensor, (made, 0, 1, 2))
    part.meta["val"] = made.meta["val"][1:2]
    graph.output((part,))
    assert read_memory(graph).values[part].parts[0].region == (20, 24)


def test_holes_and_common_parts_of_ranges() -> None:
    assert without([(0, 10)], (3, 5)) == [(0, 3), (5, 10)]
    assert without([(0, 10)], (0, 10)) == []
    assert without([WHOLE], (0, 4)) == [(WHOLE[0], 0), (4, WHOLE[1])]
    assert common([(0, 3), (5, 10)], (2, 6)) == ((2, 3), (5, 6))
    assert common([(0, 3)], (3, 6)) == ()


def test_asking_for_a_size_is_no_work_for_the_device() -> None:
    gm = make_fx(lambda x: x.new_zeros(x.shape[0] * 2), tracing_mode="symbolic")(torch.ones(3))
    asked = [node for node in gm.graph.nodes if "sym_size" in str(node.target)]
    assert asked
    assert not [node for node in asked if read_memory(gm.graph).accesses.get(node)]


def test_a_higher_order_operator_reads_its_arguments_and_makes_new_values() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    body = graph.create_node("get_attr", "body")
    call = graph.call_function(torch.ops.higher_order.cond, (True, body, body, (x,)))
    call.meta["val"] = (torch.empty(1), torch.empty(1))
    graph.output((call,))
    inner = make_fx(lambda x: (x + 1, x * 2))(torch.empty(1))
    gm = torch.fx.GraphModule({"body": inner}, graph)
    call = next(node for node in gm.graph.nodes if node.op == "call_function")
    found = read_memory(gm.graph).accesses[call]
    assert [(a.storage.name, a.reads, a.writes) for a in found] == [
        ("x", True, False),
        ("cond.0", False, True),
        ("cond.1", False, True),
    ]


def test_a_callable_that_nothing_is_known_of_may_write_what_it_reads() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    call = graph.call_function(
        torch.ops.higher_order.triton_kernel_wrapper_mutation, (), {"kwargs": {"x": x}}
    )
    graph.output(())
    access, _ = read_memory(graph).accesses[call]
    assert (access.storage.name, access.reads, access.writes) == ("x", True, True)


def test_writes_that_a_schema_hides_are_accesses() -> None:
    register_hidden_writes("aten::neg", ("self",))
    try:
        found = list(accesses(lambda x: x.neg(), torch.ones(3)))
        assert ("neg", "x_1", True, True) in found
    finally:
        _effects._hidden_writes.pop("aten::neg.default")
        _effects.effects_of.cache_clear()
