"""Operators without effect go, unless somebody could tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from air_fxpasses import Pipeline, RemoveNoop
from air_fxpasses.testing import copied, difference, functional_graph, run_graph

x = torch.arange(12.0).reshape(3, 4)
n = torch.arange(4)


def removed(function: Callable[..., Any], *inputs: torch.Tensor) -> tuple[list[str], list[str]]:
    gm = functional_graph(function, *inputs)
    eager = run_graph(gm, copied(inputs))
    report = Pipeline([RemoveNoop()], verify=True).run(gm, inputs)
    assert not any(step.rolled_back for step in report.steps), report.explain()
    assert difference(eager, run_graph(gm, copied(inputs))) is None
    return [str(n.target) for n in gm.graph.nodes if n.op == "call_function"], [
        r.reason for r in report.refusals
    ]


@pytest.mark.parametrize(
    "identity",
    [
        lambda x: x.slice_scatter(x + 1),
        lambda x: torch.ops.aten.slice.Tensor(x, 1, 0, 4),
        lambda x: x.repeat(1, 1),
        lambda x: torch.ops.aten.constant_pad_nd(x, [0, 0]),
        lambda x: x.view(3, 4),
        lambda x: torch.ops.aten.view(x, torch.float32),
        lambda x: x.expand(3, 4),
        lambda x: torch.ops.aten._to_copy(x, dtype=torch.float32),
        lambda x: torch.ops.prims.convert_element_type(x, torch.float32),
        lambda x: x.clone(),
        lambda x: torch.ops.aten.alias(x),
        lambda x: x**1,
        lambda x: torch.cat([x]),
        lambda x: torch.ops.aten.as_strided(x, (3, 4), (4, 1), 0),
        lambda x: torch.ops.aten.select_scatter(x, x[0], 0, 0),
    ],
)
def test_A35_G04_identities_disappear(identity: Callable[[torch.Tensor], torch.Tensor]) -> None:
    ops, _ = removed(lambda x: identity(x * 2).neg(), x)
    assert [op for op in ops if op not in ("aten.add.Tensor", "aten.select.int")] == [
        "aten.mul.Tensor",
        "aten.neg.default",
    ]


def test_a_detached_view_that_is_returned_stays_detached() -> None:
    ops, reasons = removed(lambda x: ((x * 2).t().detach(), (x * 3).detach() + 1), x)
    assert [op for op in ops if "detach" in op] == ["aten.detach.default"]
    assert reasons == ["without it the caller gets a view of a differentiable tensor"]


def test_a_copy_that_begins_elsewhere_is_kept_for_the_caller() -> None:
    def copies(x: torch.Tensor) -> Any:
        part = (x + 1)[1:]
        copy = x[1:].clone()
        return part.clone(), part.clone() * 2, torch.select_scatter(copy, copy[0] + 1, 0, 0).view(-1)

    ops, reasons = removed(copies, x)
    assert ops.count("aten.clone.default") == 2
    assert sorted(reasons, reverse=True) == [
        "the result is returned and would lie inside a larger memory",
        "a copy of the result is returned with what would lie round it",
    ]


@pytest.mark.parametrize("rounding", [torch.ceil, torch.floor, torch.round, torch.trunc])
def test_rounding_integers_disappears(rounding: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert removed(lambda n: rounding(n * 2).neg(), n)[0] == ["aten.mul.Tensor", "aten.neg.default"]


@pytest.mark.parametrize(
    "effect",
    [
        lambda x: torch.ops.aten.slice.Tensor(x, 1, 1, 4),
        lambda x: x.repeat(1, 2),
        lambda x: torch.ops.aten.constant_pad_nd(x, [1, 0]),
        lambda x: x.t(),
        lambda x: torch.ops.aten._to_copy(x, dtype=torch.float64),
        lambda x: torch.ops.aten.clone(x.t(), memory_format=torch.contiguous_format),
        lambda x: x**2,
        lambda x: torch.ceil(x),
    ],
)
def test_operators_with_an_effect_stay(effect: Callable[[torch.Tensor], torch.Tensor]) -> None:
    graph = functional_graph(lambda x: effect(x * 2).neg(), x)
    assert len(removed(lambda x: effect(x * 2).neg(), x)[0]) == len(
        [n for n in graph.graph.nodes if n.op == "call_function"]
    )


def test_a_copy_of_an_input_that_is_returned_stays() -> None:
    ops, reasons = removed(lambda x: x.clone(), x)
    assert ops == ["aten.clone.default"]
    assert "would alias the input 'x_1'" in reasons[0]


def test_two_returned_copies_stay_two() -> None:
    ops, reasons = removed(lambda x: ((y := x + 1), y.clone()), x)
    assert "aten.clone.default" in ops
    assert "returned next to another value" in reasons[0]


def test_a_view_that_is_returned_is_not_the_input_itself() -> None:
    ops, reasons = removed(lambda x: x.view(3, 4), x)
    assert ops == ["aten.view.default"]
    assert reasons == ["it is returned as a tensor of its own"]


def test_a_copy_of_an_input_that_is_overwritten_before_the_copy_is_read_stays() -> None:
    ops, reasons = removed(lambda x: (old := x.clone(), x.add_(1), old * 2)[2], x)
    graph = functional_graph(lambda x: (old := x.clone(), x.add_(1), old * 2)[2], x)
    assert "aten.copy_.default" in [str(n.target) for n in graph.graph.nodes]
    assert ops[-1] == "aten.copy_.default"
    assert not reasons or "written while the result is still needed" in reasons[0]


def test_fuzz_a_scatter_over_its_whole_base_stays_when_more_of_its_storage_is_read() -> None:
    """Found by fuzzing: the storage of a scatter holds what lay around its base, that of its source does not."""

    def window(x: torch.Tensor) -> torch.Tensor:
        base = x.as_strided((2,), (1,), 0)
        return torch.as_strided_scatter(base, base + 1, (2,), (1,), 0).as_strided((3,), (1,), 2)

    ops, reasons = removed(window, torch.arange(12.0))
    assert "aten.as_strided_scatter.default" in ops
    assert any("absolute storage offset" in r for r in reasons), reasons


@pytest.mark.parametrize("turned", [torch.conj, torch._neg_view], ids=["conjugated", "negated"])
def test_an_input_that_gets_its_own_numbers_turned_is_written(
    turned: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    def function(z: torch.Tensor) -> torch.Tensor:
        turned(z).copy_(z)
        return z + 1

    ops, _ = removed(function, torch.randn(3, 4, dtype=torch.complex64))
    assert "aten.copy_.default" in ops
