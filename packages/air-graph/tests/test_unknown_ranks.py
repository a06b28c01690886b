"""Dimensions that a call may drop: what is found by looking is what changes its rank when the graph really runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from air_graph import unknown_ranks


def traced(function: Callable[..., Any], *args: Tensor) -> GraphModule:
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        given = [mode.from_tensor(arg, static_shapes=True) for arg in args]
        gm: GraphModule = make_fx(function, tracing_mode="symbolic")(*given)
    return gm


def found(function: Callable[..., Any], *args: Tensor) -> list[str]:
    return [str(node.target) for node in unknown_ranks(traced(function, *args))]


def test_a_squeeze_of_a_size_that_data_decide_is_found_with_all_that_is_computed_from_it() -> None:
    def rows(mask: Tensor, x: Tensor) -> Tensor:
        ids = mask.nonzero().squeeze()
        return (x + 1).sum() + x[ids].sum(0)

    names = found(rows, torch.ones(4), torch.ones(4, 3))
    assert names == ["aten.squeeze.default", "aten.index.Tensor", "aten.sum.dim_IntList", "aten.add.Tensor"]


@pytest.mark.parametrize(
    "drop",
    [lambda rows: rows.squeeze(1), lambda rows: rows.squeeze(-1), lambda rows: rows.squeeze((1,))],
    ids=["dim", "negative dim", "dims"],
)
def test_a_squeeze_of_a_size_that_the_program_fixes_is_not_found(drop: Callable[[Tensor], Tensor]) -> None:
    assert found(lambda mask: drop(mask.nonzero()).sum(), torch.ones(4)) == []


@pytest.mark.parametrize(
    "drop",
    [lambda rows: rows.squeeze(0), lambda rows: rows.squeeze(-2), lambda rows: rows.squeeze((0, 1))],
    ids=["dim", "negative dim", "dims"],
)
def test_each_form_of_squeeze_is_looked_at(drop: Callable[[Tensor], Tensor]) -> None:
    assert len(found(lambda mask: drop(mask.nonzero()), torch.ones(4))) == 1


def test_a_size_that_the_program_says_is_more_than_one_stays() -> None:
    def many(mask: Tensor) -> Tensor:
        rows = mask.nonzero()
        torch._check(rows.shape[0] > 1)
        return rows.squeeze().sum()

    assert found(many, torch.ones(4)) == []


def test_a_branch_that_drops_a_dimension_is_found_by_the_operator_that_holds_it() -> None:
    def branch(mask: Tensor) -> Tensor:
        def dropped(x: Tensor) -> Tensor:
            return x.nonzero().squeeze().sum()

        result: Tensor = torch.cond(mask.sum() > 0, dropped, lambda x: x.nonzero().sum(), (mask,))
        return result

    names = found(branch, torch.ones(4))
    assert any("cond" in name for name in names), names


@pytest.mark.parametrize("ones", range(4))
def test_what_is_not_found_has_the_rank_that_was_traced(ones: int) -> None:
    def program(mask: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        rows = mask.nonzero()
        ids = rows.squeeze()
        picked = x[ids]
        return picked.cos(), picked.sum(0), rows.squeeze(1) * 2, x.sum(0), ids.unsqueeze(0)

    gm = traced(program, torch.ones(4), torch.ones(4, 3))
    unknown = unknown_ranks(gm)
    ranks = {node: node.meta["val"].dim() for node in gm.graph.nodes if "val" in node.meta}

    class Compared(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            result = super().run_node(n)
            if isinstance(result, Tensor) and n not in unknown:
                assert result.dim() == ranks[n], n
            return result

    Compared(gm).run((torch.arange(4) < ones).float(), torch.rand(4, 3))
    assert {str(node.target) for node in unknown} >= {"aten.cos.default", "aten.unsqueeze.default"}
