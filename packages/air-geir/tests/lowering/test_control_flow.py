"""Branches become subgraphs; sizes are computed where they are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd

from air_geir import compile_graph, lower
from air_geir.proof import trace
from air_geir.verify import verify


def compiled(
    function: Callable[..., Any], *, dynamic: bool = False, fallback: Literal["error", "eager"] = "error"
) -> tuple[Callable[..., Any], list[Any]]:
    """The function compiled through Dynamo and AOTAutograd, and the executables that were made."""
    made: list[Any] = []

    def compiler(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        run = compile_graph(gm, inputs, engine="reference", fallback=fallback)
        made.append(run)

        def boxed(args: list[Any]) -> Any:
            return run(*args)

        boxed._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd's mark for functions that take a list
        return boxed

    torch._dynamo.reset()
    backend = aot_autograd(
        fw_compiler=compiler, inference_compiler=compiler, keep_inference_input_mutations=True
    )
    return torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True), made


def branching(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a * 2 + a.shape[0], lambda a: a - 1, (x,))


@pytest.mark.parametrize("dynamic", [False, True])
def test_N04_a_branch_on_data_becomes_an_if(dynamic: bool) -> None:
    run, made = compiled(branching, dynamic=dynamic)
    with torch.no_grad():
        for x in (torch.ones(3, 4), -torch.ones(3, 4), torch.ones(5, 4)):
            torch.testing.assert_close(run(x), branching(x))
    node = next(made[0].program.graph.of_type("If"))
    assert set(node.subgraphs) == {"then_branch", "else_branch"}


def test_a_branch_on_sizes_is_decided_per_call() -> None:
    def by_size(x: Tensor) -> Any:
        return torch.cond(x.shape[0] > 4, lambda a: a * 2, lambda a: a - 1, (x,))

    run, _ = compiled(by_size, dynamic=True)
    with torch.no_grad():
        for n in (3, 5, 6):
            torch.testing.assert_close(run(torch.ones(n, 2)), by_size(torch.ones(n, 2)))


def test_a_size_that_depends_on_data_is_computed_in_the_graph() -> None:
    def positive(x: Tensor) -> Any:
        y = x[x > 0]
        return y.reshape(1, -1) * 2

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run, _ = compiled(positive)
        with torch.no_grad():
            for _ in range(3):
                x = torch.randn(5, 5)
                torch.testing.assert_close(run(x), positive(x))


def test_a_number_read_from_a_tensor_can_be_a_size() -> None:
    def head(x: Tensor, n: Tensor) -> Any:
        k = n.item()
        torch._check(k >= 0)
        torch._check(k < x.shape[0])
        return x[:k] * k + torch.arange(k)

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        run, _ = compiled(head)
        with torch.no_grad():
            for k in (2, 3):
                torch.testing.assert_close(
                    run(torch.ones(6), torch.tensor(k)), head(torch.ones(6), torch.tensor(k))
                )


def test_a_graph_that_stands_alone_computes_its_sizes_with_operators() -> None:
    from air_geir.reference import run_graph

    def shaped(x: Tensor) -> Any:
        return x.reshape(x.shape[1], x.shape[0] * 2, -1) + x.shape[0] // 2

    gm = trace(shaped, (torch.randn(4, 6, 4),), dynamic=True)
    graph = lower(gm)
    verify(graph)
    assert len(graph.inputs) == 1
    assert any(graph.of_type("Shape"))
    x = torch.randn(2, 3, 2)
    torch.testing.assert_close(run_graph(graph, [x])[0], shaped(x))


def selected(x: Tensor) -> Any:
    def inner(a: Tensor) -> Any:
        return torch.cond(a[0] > 1, lambda b: torch.kthvalue(b, 2)[0].clone(), lambda b: b.sum(), (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: a.sum(), (x * 2,)) + 1


def test_an_operator_that_a_branch_cannot_lower_is_reported_as_a_part_of_it() -> None:
    run, made = compiled(selected, fallback="eager")
    with torch.no_grad():
        for number in (2.0, 0.25, -1.0):
            x = torch.full((3,), number)
            torch.testing.assert_close(run(x), selected(x))
    (left,) = made[0].eager
    assert (left.target, left.node) == ("aten.kthvalue.default", "cond")
    assert left.source is not None
    assert "kthvalue(b, 2)" in left.source
    assert len(made[0].pieces) == 2


def test_two_branches_that_lack_one_operator_on_one_line_are_one_report() -> None:
    def function(x: Tensor) -> Any:
        first, second = (lambda a, k=k: torch.kthvalue(a, k)[0].clone() for k in (1, 2))
        return torch.cond(x.sum() > 0, first, second, (x,))

    run, made = compiled(function, fallback="eager")
    with torch.no_grad():
        for x in (torch.arange(3.0), -torch.arange(3.0)):
            torch.testing.assert_close(run(x), function(x))
    assert [left.target for left in made[0].eager] == ["aten.kthvalue.default"]


def test_a_branch_that_gives_a_number_is_torchs_own() -> None:
    def function(x: Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda a: (a * 2, 4), lambda a: (a - 1, 4), (x,))

    run, made = compiled(function, fallback="eager")
    with torch.no_grad():
        for x in (torch.ones(3), -torch.ones(3)):
            torch.testing.assert_close(run(x), function(x))
    assert [left.reason for left in made[0].eager] == [
        "a branch gives a number; give a tensor, to keep it in the graph"
    ]
