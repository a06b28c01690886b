"""The bodies of nested regions become part of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from air_graph import inline_regions, shares_storage

REGION = torch.ops.higher_order.invoke_subgraph


@torch.compiler.nested_compile_region
def region(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    chosen = torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))
    return chosen * y + torch.arange(4.0), (x + y).t()


@torch.compiler.nested_compile_region
def outer(x: Tensor) -> Tensor:
    product: Tensor = region(x, x + 1)[0] * region(x * 2, x)[0]
    return product


def nested(x: Tensor) -> Tensor:
    twice: Tensor = outer(outer(x))
    return twice


def regions(x: Tensor) -> tuple[Tensor, Tensor]:
    y, turned = region(x, x + 1)
    z, _ = region(y, x * 2)
    return z, turned


def inlined(function: Callable[..., Any], x: Tensor) -> tuple[GraphModule, int, Any]:
    """The forward graph of a function, how many calls of regions there were in it, and what it gives."""
    torch._dynamo.reset()
    graphs, counts = [], []

    def compiler(gm: GraphModule, example_inputs: Any) -> Any:
        counts.append(inline_regions(gm))
        graphs.append(gm)
        return gm

    backend = aot_autograd(fw_compiler=compiler, bw_compiler=lambda gm, example_inputs: gm)
    results = torch.compile(function, backend=backend)(x)
    (gm,) = graphs
    return gm, counts[0], results


def square() -> Tensor:
    return torch.randn(4, 4, requires_grad=True)


def test_each_call_of_a_region_becomes_its_operators() -> None:
    x = square()
    gm, count, results = inlined(regions, x)
    assert count == 2
    assert not gm.graph.find_nodes(op="call_function", target=REGION)
    gm.graph.lint()
    torch.testing.assert_close(results, regions(x))
    torch.testing.assert_close([one.stride() for one in results], [one.stride() for one in regions(x)])


def test_a_region_inside_a_region_is_taken_apart_too() -> None:
    x = square()
    gm, count, result = inlined(nested, x)
    assert count == 6
    assert not gm.graph.find_nodes(op="call_function", target=REGION)
    torch.testing.assert_close(result, nested(x))


def test_a_graph_without_regions_stays_as_it_is() -> None:
    gm = torch.fx.symbolic_trace(lambda x: x + 1)
    code = gm.code
    assert inline_regions(gm) == 0
    assert gm.code == code


@torch.compiler.nested_compile_region
def turning(x: Tensor, y: Tensor) -> Tensor:
    product: Tensor = x[1:].t() @ y[1:]
    return product


def turning_twice(x: Tensor) -> Tensor:
    twice: Tensor = turning(x, x + 1) + turning(x * 2, x + 2).t()
    return twice


def test_the_values_of_each_call_lie_in_its_operands_or_in_memory_of_their_own() -> None:
    gm, count, _ = inlined(turning_twice, square().detach())
    assert count == 2
    for node in gm.graph.nodes:
        if node.target in (torch.ops.aten.slice.Tensor, torch.ops.aten.t.default):
            assert shares_storage(node, node.all_input_nodes[0]), node.format_node()
    products = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default)
    assert len(products) == 2
    assert not shares_storage(*products)
