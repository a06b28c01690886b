"""What several layers compute from the same arguments is computed once, unless somebody could tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional

from air_fxpasses import EliminateDeadCode, Pipeline, ReuseValues, default_passes
from air_fxpasses.testing import copied, difference, functional_graph, run_graph

aten = torch.ops.aten
x = torch.arange(12.0).reshape(3, 4)
mask = torch.tensor([True, False, True, True])


def reused(function: Callable[..., Any], *inputs: Tensor) -> tuple[list[str], list[str]]:
    gm = functional_graph(function, *inputs)
    eager = run_graph(gm, copied(inputs))
    report = Pipeline([ReuseValues(), EliminateDeadCode()], verify=True).run(gm, inputs)
    assert not any(step.rolled_back for step in report.steps), report.explain()
    assert difference(eager, run_graph(gm, copied(inputs))) is None
    names = [str(n.target) for n in gm.graph.nodes if n.op == "call_function"]
    return names, [refusal.reason for refusal in report.refusals]


def masked(x: Tensor, mask: Tensor) -> Tensor:
    return x + torch.where(mask, 0.0, float("-inf"))


def test_a_mask_of_every_layer_is_made_once() -> None:
    ops, _ = reused(lambda x, m: masked(masked(masked(x, m), m), m), x, mask)
    assert sum("where" in op for op in ops) == 1
    assert ops.count("aten.add.Tensor") == 3


def layers_with_attention(x: Tensor, mask: Tensor, *weights: Tensor) -> Tensor:
    for weight in weights:
        q, k, v = (x @ weight).view(1, 4, 3, 2, 4).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, mask[None, None, None])
        x = x + seen.transpose(1, 2).reshape(1, 4, 8)
    return x


def test_layers_with_attention_share_the_bias_of_their_mask() -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(1, 4, 8), mask, *torch.randn(3, 8, 24)]
    gm = functional_graph(layers_with_attention, *inputs)

    def count(target: Any) -> int:
        return len(gm.graph.find_nodes(op="call_function", target=target))

    assert (count(aten.where.self), count(aten.scalar_tensor.default)) == (3, 6)
    eager = run_graph(gm, copied(inputs))
    Pipeline(default_passes(), verify=True).run(gm, inputs)
    assert (count(aten.where.self), count(aten.scalar_tensor.default)) == (1, 2)
    assert difference(eager, run_graph(gm, copied(inputs))) is None


def test_views_of_views_are_taken_once() -> None:
    ops, _ = reused(lambda x: x.t().unsqueeze(0).neg() + x.t().unsqueeze(0).relu(), x)
    assert ops.count("aten.t.default") + ops.count("aten.permute.default") == 1
    assert ops.count("aten.unsqueeze.default") == 1


def test_constants_that_only_compare_equal_stay_apart() -> None:
    ops, _ = reused(lambda x: (x.relu() / 0.0, x.relu() / -0.0), x)
    assert ops.count("aten.div.Tensor") == 2
    assert ops.count("aten.relu.default") == 1
    ops, _ = reused(lambda x: (x * True).neg() + (x * 1).neg() + (x * 1.0).neg(), x)
    assert ops.count("aten.mul.Tensor") == 3


def argument_written(x: Tensor) -> Any:
    row = x[0]
    before = (row + 1).sum()
    aten.mul_(x, 2)
    return before, (row + 1).sum()


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: (x + 1, x + 1), "it is returned as a tensor of its own"),
        (lambda x: (x + 1, (x + 1).view(-1)[2:]), "it is returned as a tensor of its own"),
        (lambda x: ((x + 1).sum(), aten.relu_(x + 1).sum()), "its memory is written"),
(argument_written, "its argument is written in between"),
        (lambda x: (x.t().sum(), aten.mul_(x, 2).sum(), x.t().neg()), None),
    ],
    ids=["returned", "a view of it returned", "written", "argument written", "a view of what is written"],
)  # fmt: skip
def test_a_value_that_somebody_could_tell_from_the_first_stays(
    function: Callable[[Tensor], Any], reason: str | None
) -> None:
    gm = make_fx(function, tracing_mode="fake")(x.clone())
    eager = run_graph(gm, [x.clone()])
    report = Pipeline([ReuseValues()], verify=True).run(gm, [x.clone()])
    assert not any(step.rolled_back for step in report.steps), report.explain()
    assert difference(eager, run_graph(gm, [x.clone()])) is None
    assert [refusal.reason for refusal in report.refusals] == ([] if reason is None else [reason])


def test_a_value_of_a_sparse_tensor_stays() -> None:
    sparse = torch.eye(3).to_sparse()
    gm = make_fx(lambda x: x.to_dense().sum() + x.to_dense().prod(), tracing_mode="fake")(sparse)
    before = [str(node.target) for node in gm.graph.nodes]
    report = Pipeline([ReuseValues()]).run(gm, [sparse])
    assert [str(node.target) for node in gm.graph.nodes] == before
    assert {refusal.reason for refusal in report.refusals} == {
        "it is not known who writes its memory, or that of an argument"
    }


def test_the_last_of_three_is_compared_with_the_one_behind_the_write() -> None:
    def function(x: Tensor) -> Any:
        row = x[0]
        before = (row + 1).sum()
        aten.mul_(x, 2)
        return before, (row + 1).sum(), (row + 1).prod()

    gm = make_fx(function, tracing_mode="fake")(x.clone())
    eager = run_graph(gm, [x.clone()])
    Pipeline([ReuseValues()], verify=True).run(gm, [x.clone()])
    assert len(gm.graph.find_nodes(op="call_function", target=aten.add.Tensor)) == 2
    assert difference(eager, run_graph(gm, [x.clone()])) is None


def test_random_draws_copies_and_memory_to_fill_stay() -> None:
    ops, _ = reused(lambda x: x.clone().neg() + x.clone().relu(), x)
    assert ops.count("aten.clone.default") == 2
    ops, _ = reused(
        lambda x: torch.zeros(3, 4).index_fill(0, torch.tensor([0]), 1.0) + torch.zeros(3, 4) + x, x
    )
    assert sum(op in ("aten.full.default", "aten.zeros.default") for op in ops) == 2
    gm = functional_graph(lambda x: torch.rand_like(x) - torch.rand_like(x), x)
    Pipeline([ReuseValues()]).run(gm, [x])
    assert len([n for n in gm.graph.nodes if "rand" in str(n.target)]) == 2


def test_a_large_value_is_not_kept_for_the_sake_of_a_launch() -> None:
    big = torch.zeros(1, (32 << 18) + 1)
    ops, reasons = reused(lambda x: (x * 2).sum() + (x * 2).prod(), big)
    assert ops.count("aten.mul.Tensor") == 2
    assert reasons == ["it is large (over 32 MiB), and would be kept for long"]


def test_a_second_run_finds_nothing() -> None:
    gm = functional_graph(lambda x, m: masked(masked(x, m), m), x, mask)
    first = Pipeline([ReuseValues()]).run(gm, [x, mask])
    assert first.steps[0].modified
    assert not Pipeline([ReuseValues()]).run(gm, [x, mask]).steps[0].modified


def test_parts_of_two_equal_values_that_are_returned_stay_apart() -> None:
    def parts(x: Tensor) -> tuple[Tensor, ...]:
        return torch.unsafe_split(x + 1, 2)[0], torch.unsafe_split(x + 1, 2)[0]

    ops, reasons = reused(parts, x)
    assert ops.count("aten.add.Tensor") == 2
    assert any("returned" in reason for reason in reasons)
