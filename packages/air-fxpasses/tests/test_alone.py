"""A proof makes no collective: these graphs name a group that does not exist, so that one that is made raises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from air_fxpasses import Facts, Pass, PassResult, Pipeline, default_passes
from air_fxpasses.testing import run_graph

functional: Any = torch.ops._c10d_functional
GROUP = "nobody's"


def gathered_sum(x: Tensor) -> tuple[Tensor, ...]:
    total = functional.wait_tensor(functional.all_reduce(x + 1, "sum", GROUP))
    rows = functional.wait_tensor(functional.all_gather_into_tensor(x * 2, 2, GROUP))
    many = functional.all_reduce_coalesced([x.neg(), x.abs()], "sum", GROUP)
    return total * 2, rows.relu(), functional.wait_tensor(many[1]) + 1


def traced(function: Any, *inputs: Tensor) -> GraphModule:
    gm = make_fx(function, tracing_mode="fake")(*inputs)
    gm.graph.eliminate_dead_code()
    return gm


@dataclass(frozen=True)
class SwapsInputs(Pass):
    """Gives one collective of a list the input of another one."""

    name: ClassVar[str] = "swaps_inputs"

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        (node,) = gm.graph.find_nodes(op="call_function", target=functional.all_reduce_coalesced.default)
        node.args = (node.args[0][::-1], *node.args[1:])
        return PassResult(True)


def test_N14_graphs_with_collectives_are_proven_without_other_ranks() -> None:
    x = torch.randn(3, 2)
    report = Pipeline(default_passes(), verify=True).run(traced(gathered_sum, x), [x])
    assert report.unverified == ""
    assert any(step.modified for step in report.steps)
    assert [step.rolled_back for step in report.steps if step.rolled_back] == []


def test_N14_a_pass_that_gives_a_collective_another_input_is_rolled_back() -> None:
    x = torch.randn(3, 2)
    report = Pipeline([SwapsInputs()], verify=True).run(traced(gathered_sum, x), [x])
    assert "output 2 differs" in report.step("swaps_inputs").rolled_back


def test_what_stands_in_for_a_collective_is_the_same_in_place_and_lies_as_its_result() -> None:
    x = torch.arange(6.0).view(2, 3)

    def in_place(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        written = functional.all_reduce_(y, "sum", GROUP)
        return functional.wait_tensor(written), y

    written, y = run_graph(traced(in_place, x), [x], alone=True).outputs
    (total, rows, _) = run_graph(traced(gathered_sum, x), [x], alone=True).outputs
    assert torch.equal(written, total / 2)
    assert torch.equal(y, written)
    assert rows.shape == (4, 3)


def test_whole_numbers_and_truth_keep_their_type() -> None:
    def function(x: Tensor, yes: Tensor) -> tuple[Tensor, Tensor]:
        counts = functional.all_reduce(x, "sum", GROUP)
        return functional.wait_tensor(counts), functional.wait_tensor(functional.broadcast(yes, 0, GROUP))

    given = [torch.arange(4), torch.tensor([True, False])]
    counts, yes = run_graph(traced(function, *given), given, alone=True).outputs
    assert counts.tolist() == [0, 2, 4, 6]
    assert yes.tolist() == [True, False]


def test_a_proof_says_that_numbers_are_not_checked_where_a_collective_runs_inside_another_operator() -> None:
    def function(x: Tensor) -> Tensor:
        def summed(x: Tensor) -> Tensor:
            total: Tensor = functional.wait_tensor(functional.all_reduce(x, "sum", GROUP))
            return total

        found: Tensor = torch.cond(x.sum() > 0, summed, torch.neg, (x,))
        return found

    x = torch.ones(3)
    report = Pipeline(default_passes(), verify=True).run(traced(function, x), [x])
    assert "runs a collective" in report.unverified


def test_a_graph_that_is_run_by_itself_makes_its_collectives() -> None:
    x = torch.ones(3)
    with pytest.raises(Exception, match=GROUP):
        run_graph(traced(gathered_sum, x), [x])
