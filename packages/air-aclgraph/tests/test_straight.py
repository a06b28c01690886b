"""The straight function: the same results as the graph, no interpreter, nodes found again from errors."""

from __future__ import annotations

import dis
import gc
import linecache
import weakref

import pytest
import torch
from torch import Tensor

from aclgraph_backend import traced
from air_aclgraph import run_eagerly
from air_aclgraph._straight import Straight, straighten


def test_it_computes_what_the_graph_computes() -> None:
    def program(x: Tensor, y: Tensor) -> tuple[object, ...]:
        a, b = torch.split(x, 2)
        return torch.cat([a, b * float("inf"), y[None, :]]), x.shape[0], [a.amax(), None], {"k": y}

    gm = traced(program, torch.randn(4, 3), torch.randn(3))
    x, y = torch.randn(4, 3), torch.randn(3)
    for found, expected in zip(
        torch.utils._pytree.tree_leaves(run_eagerly(gm)(x, y)),
        torch.utils._pytree.tree_leaves(program(x, y)),
        strict=True,
    ):
        torch.testing.assert_close(found, expected, equal_nan=True)


def test_it_is_one_function_without_a_loop() -> None:
    straight = straighten(traced(lambda x: x + 1 - 2, torch.ones(2)))
    assert {"FOR_ITER", "JUMP_BACKWARD"}.isdisjoint(i.opname for i in dis.get_instructions(straight.function))


def test_a_value_is_dropped_after_its_last_use() -> None:
    seen: list[weakref.ref[Tensor]] = []

    @torch.library.custom_op("air_aclgraph_test::watch", mutates_args=())
    def watch(x: Tensor) -> Tensor:
        assert all(reference() is None for reference in seen)
        made = x + 1
        seen.append(weakref.ref(made))
        return made

    watch.register_fake(lambda x: torch.empty_like(x))
    gm = traced(lambda x: torch.ops.air_aclgraph_test.watch(x) * 2, torch.ones(2))
    run_eagerly(gm)(torch.ones(2))
    seen.append(seen.pop())
    run_eagerly(gm)(torch.ones(2))


def test_the_failing_node_is_found_again() -> None:
    gm = traced(lambda x, y: (x + 1) @ y, torch.ones(2, 3), torch.ones(3, 2))
    straight = straighten(gm)
    with pytest.raises(RuntimeError) as caught:
        straight.function(torch.ones(2, 3), torch.ones(4, 2))
    node = straight.node_at(caught.value)
    assert node is not None
    assert node.target is torch.ops.aten.mm.default


TEXTS = torch.library.Library("air_aclgraph_texts", "DEF")
TEXTS.define("tagged(Tensor x, str text, str[] texts) -> Tensor")
SEEN: list[tuple[str, list[str]]] = []


def _tagged(x: Tensor, text: str, texts: list[str]) -> Tensor:
    SEEN.append((text, texts))
    return x + 1


TEXTS.impl("tagged", _tagged, "CompositeExplicitAutograd")


def test_W30_names_and_texts_that_look_like_code_mean_nothing() -> None:
    awkward = ["it's", 'a "quote"', "back\\slash\n", "scope_enter", "v1 = f0(a0)", "{x}", "return None"]
    graph = torch.fx.Graph()
    value = graph.placeholder("f0")
    for index, text in enumerate(awkward):
        value = graph.create_node(
            "call_function",
            torch.ops.air_aclgraph_texts.tagged.default,
            (value, text, awkward[:index]),
            name="v1",
        )
    graph.output((value,))
    function = straighten(torch.fx.GraphModule(torch.nn.Module(), graph)).function
    SEEN.clear()
    assert function(torch.zeros(2))[0].tolist() == [7.0, 7.0]
    assert [text for text, _ in SEEN] == awkward
    assert SEEN[-1][1] == awkward[:-1]


def test_W20_nothing_of_one_graph_is_left_for_another() -> None:
    def compiled(count: int) -> Straight:
        return straighten(
            traced(lambda x: x.new_ones(x.shape[0] * count) * x.shape[1], torch.ones(3, 2), dynamic=True)
        )

    alive = [compiled(1), compiled(2)]
    for count in range(3, 6):
        alive.append(compiled(count))
        del alive[0]
        gc.collect()
        for straight, times in zip(alive, (count - 1, count), strict=True):
            found = straight.function(torch.ones(4, 5))
            assert found.tolist() == [5.0] * (4 * times)
    names = {straight.filename for straight in alive}
    del alive, straight
    gc.collect()
    assert not names & linecache.cache.keys()
