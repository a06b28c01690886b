"""Graphs in parts do what the whole does, wherever they are cut."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import may_keep_state
from air_graph.pieces import Cut, compile_parts, cut, depends_on_data

aten = torch.ops.aten


def traced(function: Callable[..., Any], *inputs: Tensor, mode: Any = "fake") -> GraphModule:
    return make_fx(function, tracing_mode=mode)(*inputs)


def calls(gm: GraphModule, *targets: object) -> list[Node]:
    return [n for n in gm.graph.nodes if n.target in targets]


def shape(parted: Cut) -> str:
    return "".join("e" if part.is_eager else "p" for part in parted.parts)


def submodule(parted: Cut, name: str) -> GraphModule:
    found = parted.gm.get_submodule(name)
    assert isinstance(found, GraphModule)
    return found


def test_nodes_between_two_eager_ones_wait_until_they_can_run_together() -> None:
    def program(x: Tensor) -> Tensor:
        a = x.exp()
        b = x.sin()
        c = b.exp()
        return a + c * 2

    gm = traced(program, torch.ones(3))
    parted = cut(gm, calls(gm, aten.exp.default))
    assert shape(parted) == "pep"
    assert torch.equal(parted.gm(torch.ones(3)), program(torch.ones(3)))


def test_a_graph_without_eager_nodes_is_one_piece() -> None:
    gm = traced(lambda x: (x + 1).t() * 2, torch.ones(2, 3))
    assert shape(cut(gm, ())) == "p"


def test_views_alone_are_no_piece() -> None:
    gm = traced(lambda x: x.exp().t().view(-1), torch.ones(2, 1))
    assert shape(cut(gm, calls(gm, aten.exp.default))) == "e"


def test_a_value_whose_size_depends_on_data_is_eager_until_it_is_used_up() -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        picked = (x + 1).nonzero()
        return picked.float().sum() * (y @ y)

    with torch._subclasses.fake_tensor.unset_fake_temporarily():
        gm = _with_unbacked(program, torch.ones(3, 3), torch.ones(3, 3))
    parted = cut(gm, ())
    eager = [n for part in parted.parts if part.is_eager for n in part.nodes]
    assert aten.nonzero.default in [n.target for n in eager]
    assert aten.mm.default not in [n.target for n in eager]
    assert any(depends_on_data(n) for n in eager)
    x, y = torch.tensor([[0.0, -1, 2], [1, 1, -1], [3, 3, 3]]), torch.rand(3, 3)
    assert torch.equal(parted.gm(x, y), program(x, y))


def _with_unbacked(program: Callable[..., Any], *inputs: Tensor) -> GraphModule:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv(allow_dynamic_output_shape_ops=True))
    fakes = [mode.from_tensor(t, static_shapes=True) for t in inputs]
    with mode:
        return make_fx(program, tracing_mode="real")(*fakes)


def test_a_part_is_given_the_sizes_it_speaks_of() -> None:
    def program(x: Tensor, n: int) -> Tensor:
        return (x.exp().view(n, -1) + 1).expand(n, x.shape[0] // n)

    gm = make_fx(program, tracing_mode="symbolic")(torch.ones(6), 2)
    parted = cut(gm, calls(gm, aten.exp.default))
    assert torch.equal(parted.gm(torch.ones(12), 4), program(torch.ones(12), 4))


def test_a_write_keeps_its_place_among_those_who_touch_the_memory() -> None:
    def program(x: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
        before = cache.sum()
        cache[0].copy_(x)
        after = cache.sum()
        cache.mul_(2)
        return before, after

    gm = traced(program, torch.ones(3), torch.zeros(2, 3))
    for eager in gm.graph.nodes:
        if eager.op == "call_function":
            want_cache, got_cache = torch.zeros(2, 3), torch.zeros(2, 3)
            want, got = program(torch.ones(3), want_cache), cut(gm, [eager]).gm(torch.ones(3), got_cache)
            assert got == want, eager
            assert torch.equal(want_cache, got_cache), eager


def test_random_draws_keep_their_order() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.rand(2) + i for i in range(4))

    gm = traced(program, torch.ones(1))
    draws = calls(gm, aten.rand.default)
    torch.manual_seed(1)
    want = program(torch.ones(1))
    torch.manual_seed(1)
    assert all(map(torch.equal, cut(gm, draws[1::2]).gm(torch.ones(1)), want))


def test_branches_that_draw_keep_their_turn() -> None:
    def program(x: Tensor) -> tuple[Tensor, ...]:
        first = torch.rand(2)
        chosen = torch.cond(x.sum() > 0, lambda x: x + torch.rand_like(x), torch.sin, (x,))
        return first, chosen, torch.rand(2)

    gm = traced(program, torch.ones(2))
    torch.manual_seed(1)
    want = gm(torch.ones(2))
    for eager in (calls(gm, aten.rand.default)[:1], calls(gm, torch.ops.higher_order.cond)):
        torch.manual_seed(1)
        assert all(map(torch.equal, cut(gm, eager).gm(torch.ones(2)), want)), eager


def test_constants_and_inputs_are_given_back() -> None:
    table = torch.arange(3.0)

    def program(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x, x.exp() + table, x

    gm = make_fx(program)(torch.ones(3))
    parted = cut(gm, calls(gm, aten.exp.default))
    x = torch.ones(3)
    first, second, third = parted.gm(x)
    assert first is x
    assert third is x
    assert torch.equal(second, x.exp() + table)


def test_an_operator_with_several_results_keeps_them_on_its_side() -> None:
    def program(x: Tensor) -> Tensor:
        values, places = x.exp().sort()
        return values * 2 + places

    gm = traced(program, torch.ones(3))
    for eager in calls(gm, aten.sort.default, aten.exp.default):
        assert torch.equal(cut(gm, [eager]).gm(torch.ones(3)), program(torch.ones(3)))


def test_one_of_several_results_takes_the_others_and_their_maker_to_its_side() -> None:
    gm = traced(lambda x: x.exp().split(1)[2] * 2, torch.ones(3))
    parted = cut(gm, calls(gm, operator.getitem)[2:])
    (eager,) = (part.nodes for part in parted.parts if part.is_eager)
    assert [n.target for n in eager] == [aten.split.Tensor, *[operator.getitem] * 3]
    assert torch.equal(parted.gm(torch.ones(3)), torch.ones(1).exp() * 2)


def test_parts_are_compiled_by_what_they_are() -> None:
    gm = traced(lambda x: (x + 1).exp() * 2, torch.ones(3))
    parted = cut(gm, calls(gm, aten.exp.default))
    asked: list[tuple[str, str]] = []

    def compiling(kind: str) -> Callable[..., Any]:
        def compile_part(part: GraphModule, examples: list[Any], name: str) -> Callable[..., Any]:
            asked.append((kind, name))
            assert [tuple(e.shape) for e in examples] == [(3,)]
            return part.forward

        return compile_part

    call, runs = compile_parts(parted, compiling("compiled"), compiling("eager"))
    assert asked == [("compiled", "piece_0"), ("eager", "eager_1"), ("compiled", "piece_2")]
    assert list(runs) == ["piece_0", "eager_1", "piece_2"]
    assert torch.equal(call(torch.ones(3)), (torch.ones(3) + 1).exp() * 2)


STEPS: tuple[Callable[[list[Tensor], Tensor, Tensor], Any], ...] = (
    lambda values, a, b: a.add_(b.clone()),
    lambda values, a, b: a[0].mul_(b[1].clone()),
    lambda values, a, b: a.t().copy_(b.clone()),
    lambda values, a, b: torch.mul(b.clone(), 2, out=a),
    lambda values, a, b: values.append(a.t()),
    lambda values, a, b: values.append(a.reshape(3, 3)),
    lambda values, a, b: values.append(torch.rand_like(a) + b),
    lambda values, a, b: values.append(a + b),
    lambda values, a, b: values.append(a @ b),
    lambda values, a, b: values.append(torch.stack(a.unbind()[::-1])),
    lambda values, a, b: values.extend(a.sort()[:1] + b.split(3)),
)


def _random_program(draw: random.Random) -> Callable[[Tensor, Tensor], tuple[Tensor, ...]]:
    steps = [(draw.choice(STEPS), draw.random(), draw.random()) for _ in range(draw.randrange(4, 16))]

    def program(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        values = [x, y]
        for step, first, second in steps:
            step(values, values[int(first * len(values))], values[int(second * len(values))])
        return tuple(values[2:])

    return program


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(120))
def test_random_programs_cut_anywhere_do_what_the_whole_does(seed: int) -> None:
    draw = random.Random(seed)
    program = _random_program(draw)
    inputs = torch.rand(3, 3), torch.rand(3, 3)
    gm = make_fx(program, tracing_mode="fake")(*(t.clone() for t in inputs))
    eager = [n for n in gm.graph.nodes if n.op == "call_function" and draw.random() < 0.3]
    parted = cut(gm, eager)
    call, _ = compile_parts(parted, lambda part, *_: part.forward, lambda part, *_: part.forward)
    for _ in range(2):
        theirs, ours = [t.clone() for t in inputs], [t.clone() for t in inputs]
        torch.manual_seed(seed)
        want = gm(*theirs)
        torch.manual_seed(seed)
        got = call(*ours)
        for a, b in zip((*got, *ours), (*want, *theirs), strict=True):
            assert torch.equal(a, b)
    given = [
        n for part in parted.parts for n in submodule(parted, part.name).graph.find_nodes(op="placeholder")
    ]
    assert not any(isinstance(n.meta.get("val"), (list, tuple)) for n in given)
    assert {n for part in parted.parts if part.is_eager for n in part.nodes} >= {
        n for n in eager if n in {m for p in parted.parts for m in p.nodes}
    }


@pytest.mark.parametrize("viewed", [False, True])
def test_what_waits_for_a_collective_that_runs_apart_runs_apart(viewed: bool) -> None:
    collective = torch.ops._c10d_functional
    graph = Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(4)
    summed = graph.call_function(collective.all_reduce.default, (x, "sum", "group"))
    seen = graph.call_function(torch.ops.aten.view.default, (summed, [2, 2])) if viewed else summed
    waited = graph.call_function(collective.wait_tensor.default, (seen,))
    doubled = graph.call_function(torch.ops.aten.mul.Tensor, (waited, 2))
    for node in (summed, seen, waited, doubled):
        node.meta["val"] = torch.ones(4)
    graph.output((doubled,))
    gm = GraphModule(torch.nn.Module(), graph)
    eager, piece = cut(gm, [summed]).parts
    assert eager.is_eager
    assert waited in eager.nodes
    assert doubled in piece.nodes
    (alone,) = cut(gm, []).parts
    assert waited in alone.nodes


def test_operators_of_ones_own_keep_their_turn_and_stay_on_their_side_of_the_callers_memory() -> None:
    with torch.library._scoped_library("keeps", "DEF") as library:
        library.define("op(Tensor x) -> Tensor")
        library.impl("op", torch.relu, "CompositeExplicitAutograd")
        torch.library.register_fake("keeps::op", torch.empty_like, lib=library)
        op = torch.ops.keeps.op.default

        def program(x: Tensor, cache: Tensor) -> tuple[Tensor, ...]:
            first = op(x + 1)
            return op(first * 2), op(x), cache * 3, *x.split(1)

        gm = traced(program, torch.ones(3), torch.ones(3))
        eager = calls(gm, op)
        parts = cut(gm, eager).parts
        order = [node for part in parts for node in part.nodes]
        (split,) = calls(gm, aten.split.Tensor)
        home = next(part for part in parts if split in part.nodes)
        (look,) = calls(gm, aten.mul.Tensor)[1:]
        assert [node for node in order if node in eager] == eager
        assert order.index(look) > order.index(eager[-1])
        assert set(split.users) <= set(home.nodes)
        assert may_keep_state(op)
        assert not may_keep_state(aten.relu.default)
