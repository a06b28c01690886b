"""Branches become subgraphs; sizes are computed where they are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._higher_order_ops.while_loop import while_loop

from air_geir import compile_graph, lower
from air_geir.building import Context
from air_geir.converters import converts, unregister
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


def noisy(a: Tensor) -> Tensor:
    return a * 0 + torch.rand_like(a)


def draws(x: Tensor) -> Any:
    """Draws before, in both branches, in a branch of a branch, and after."""

    def inner(a: Tensor) -> Any:
        return torch.cond(a[0] > 1, lambda b: (noisy(b), noisy(b)), lambda b: (noisy(b), noisy(b)), (a,))

    first = torch.rand_like(x)
    chosen = torch.cond(x.sum() > 0, inner, lambda a: (noisy(a), noisy(a)), (x,))
    return first, *chosen, torch.rand_like(x)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("number", [2.0, 1.0, -1.0])
def test_every_draw_in_a_branch_and_around_it_gives_other_numbers(number: float, dynamic: bool) -> None:
    run, made = compiled(draws, dynamic=dynamic)
    x = torch.full((50,), number)
    with torch.no_grad():
        drawn = [*run(x), *run(x)]
    verify(made[0].program.graph)
    assert len({tuple(one.tolist()) for one in drawn}) == 8
    assert all(one.shape == x.shape and 0.3 < float(one.mean()) < 0.7 for one in drawn)


def test_the_generator_decides_what_a_branch_draws() -> None:
    run, _ = compiled(draws)
    x = torch.ones(20)
    with torch.no_grad():
        torch.manual_seed(3)
        first = run(x)
        torch.manual_seed(3)
        assert all(torch.equal(a, b) for a, b in zip(first, run(x), strict=True))
        torch.manual_seed(4)
        assert not torch.equal(first[1], run(x)[1])


def test_what_one_branch_takes_besides_leaves_the_inputs_of_the_other_in_their_places() -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        return torch.cond(
            x.sum() > 0, lambda a, b: a - b, lambda a, b: b - a + 0 * torch.rand_like(a), (x, y)
        )

    run, made = compiled(function)
    with torch.no_grad():
        for sign in (1, -1):
            x, y = torch.full((3,), 2.0) * sign, torch.full((3,), 5.0)
            torch.testing.assert_close(run(x, y), function(x, y))
    branches = next(made[0].program.graph.of_type("If")).subgraphs.values()
    verify(made[0].program.graph)
    assert [len(branch.inputs) for branch in branches] == [4, 4]


def test_as_many_random_numbers_as_the_data_says_are_drawn_by_torch() -> None:
    def function(x: Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda a: torch.rand_like(a[a > 0]).sum(), lambda a: a.sum(), (x,)) + 1

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run, made = compiled(function, fallback="eager")
        with torch.no_grad():
            assert run(torch.ones(3)) != run(torch.ones(3))
            assert run(-torch.ones(3)) == -2
    (left,) = made[0].eager
    assert (left.target, left.node) == ("aten.rand_like.default", "cond")


def rounds(x: Tensor) -> Any:
    return while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, torch.rand_like(a)), (torch.tensor(0), x))


def test_a_loop_draws_other_numbers_in_each_round() -> None:
    def function(x: Tensor) -> Any:
        def step(i: Tensor, a: Tensor, b: Tensor) -> Any:
            return i + 1, torch.rand_like(a), a.clone()

        return while_loop(lambda i, a, b: i < 3, step, (torch.tensor(0), x, x * 1))

    run, _ = compiled(function, fallback="eager")
    with torch.no_grad():
        results = [run(torch.ones(20)) for _ in range(2)]
    drawn = [tuple(one.tolist()) for _, *last in results for one in last]
    assert len(set(drawn)) == 4


def test_a_body_that_may_run_several_times_does_not_draw() -> None:
    def converter(ctx: Context, cond_fn: Any, body_fn: Any, carried: Any, additional: Any) -> Any:
        ctx.subgraph("body", body_fn, carried, carried)
        return carried

    converts("higher_order.while_loop")(converter)
    try:
        run, _ = compiled(rounds)
        with pytest.raises(Exception, match="would draw the same random numbers") as caught, torch.no_grad():
            run(torch.ones(3))
    finally:
        unregister("higher_order.while_loop")
    assert "UnsupportedGraphError" in str(caught.value)


@pytest.mark.parametrize("factor", [1, 2])
def test_a_branch_takes_sizes_that_are_expressions(factor: int) -> None:
    def function(x: Tensor, y: Tensor) -> Any:
        n = y.shape[0] + 1

        def ones(a: Tensor) -> Tensor:
            return a.new_ones(n * factor) * n

        def nested(a: Tensor) -> Any:
            return torch.cond(a[0] > 1, ones, lambda b: b.new_ones(n * factor) * y.shape[0], (a,))

        return torch.cond(x.sum() > 0, nested, lambda a: a.new_zeros(n * factor), (x,))

    run, made = compiled(function, dynamic=True)
    with torch.no_grad():
        for number in (2.0, 1.0, -1.0):
            for size in (4, 6):
                x, y = torch.full((3,), number), torch.ones(size)
                torch.testing.assert_close(run(x, y), function(x, y))
    assert len(made) == 1
    verify(made[0].program.graph)


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
