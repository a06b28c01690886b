"""Concatenations whose operands write into the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from air_fxpasses import EliminateCat, Facts, Pipeline, default_passes
from air_fxpasses.testing import copied, difference, functional_graph, run_graph

aten = torch.ops.aten
x, w = torch.arange(12.0).reshape(3, 4), torch.ones(4, 4)


def eliminated(
    function: Callable[..., Any], *inputs: torch.Tensor, is_dynamic: bool = False
) -> tuple[list[str], list[str]]:
    gm = functional_graph(function, *inputs, is_dynamic=is_dynamic)
    eager = run_graph(gm, copied(inputs))
    report = Pipeline([EliminateCat()], verify=True).run(gm, inputs)
    assert not any(step.rolled_back for step in report.steps), report.explain()
    assert difference(eager, run_graph(gm, copied(inputs))) is None
    return [str(n.target) for n in gm.graph.nodes if n.op == "call_function"], [
        r.reason for r in report.refusals
    ]


def test_A36_operands_write_into_slices_of_one_buffer() -> None:
    ops, _ = eliminated(lambda x, w: torch.cat([torch.mm(x, w), x + 1, x.neg()]), x, w)
    assert "aten.cat.default" not in ops
    assert [op for op in ops if op.endswith(".out")] == ["aten.mm.out", "aten.add.out", "aten.neg.out"]


def test_a_leading_dimension_of_one_allows_another_dimension() -> None:
    ops, _ = eliminated(lambda x: torch.cat([x[:1] + 1, x[:1] * 2], 1), x)
    assert "aten.cat.default" not in ops


def test_W20_symbolic_sizes_become_nodes_and_nothing_is_kept_between_graphs() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x + 1, y * 2, x.neg()])

    for rows in (3, 5):
        ops, _ = eliminated(f, torch.ones(rows, 4), torch.ones(rows + 2, 4), is_dynamic=True)
        assert "aten.cat.default" not in ops
    gm = functional_graph(f, torch.ones(3, 4), torch.ones(5, 4), is_dynamic=True)
    Pipeline([EliminateCat()]).run(gm)
    for rows, more in ((3, 5), (7, 2)):
        a, b = torch.rand(rows, 4), torch.rand(more, 4)
        assert torch.equal(gm(a, b), f(a, b))


def test_W19_the_slices_are_known_to_share_the_memory_of_the_buffer() -> None:
    gm = functional_graph(lambda x: torch.cat([x + 1, x * 2]), x)
    Pipeline([EliminateCat()]).run(gm, [x])
    facts = Facts(gm)
    buffer = next(n for n in gm.graph.nodes if n.target is aten.empty.memory_format)
    writes = [t for t in facts.touches(facts.storage(buffer) or 0) if t.writes]
    assert [t.node.target for t in writes] == [aten.add.out, aten.mul.out]


def test_W19_mixed_types_are_refused() -> None:
    ops, reasons = eliminated(lambda x: torch.cat([x + 1, torch.ones_like(x, dtype=torch.float64) * 2]), x)
    assert "aten.cat.default" in ops
    assert "is torch.float32, the result torch.float64" in reasons[0]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: torch.cat([x, x + 1]), "not computed by an operator of this graph"),
        (lambda x: torch.cat([x[1:], x + 1]), "has no .out form"),
        (lambda x: torch.cat([(y := x + 1), y]), "occurs twice"),
        (lambda x: torch.cat([(y := x + 1), x * 2]) + y.sum(), "is used elsewhere"),
        (lambda x: torch.cat([x + 1, x * 2], 1), "not contiguous"),
        (lambda x: torch.cat([x.t() + 1, x.t() * 2]), "is not contiguous"),
    ],
)
def test_refuses_with_the_reason(function: Callable[..., Any], reason: str) -> None:
    ops, reasons = eliminated(lambda x: function(x), x)
    assert "aten.cat.default" in ops
    assert reason in reasons[0]


def test_an_operand_of_two_concatenations_is_refused() -> None:
    ops, reasons = eliminated(lambda x: (torch.cat([(y := x + 1), x * 2]), torch.cat([x * 3, y])), x)
    assert ops.count("aten.cat.default") == 2
    assert "is used elsewhere" in reasons[0]


def test_fuzz_views_of_the_result_move_to_the_buffer() -> None:
    """Found by fuzzing: a view of the concatenation, returned, and the result written in place afterwards."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        both = torch.cat([x.neg(), x * 2])
        column = both[:, 1]
        return column, torch.select_scatter(both, column, 1, 1) + 1

    gm = functional_graph(f, x)
    eager = run_graph(gm, [x])
    Pipeline(default_passes(), verify=True).run(gm, [x])
    assert difference(eager, run_graph(gm, [x])) is None
