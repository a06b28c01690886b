"""S14: results live in the memory of intermediate values, when memory says that they may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import Node

from air_fxpasses import (
    Pipeline,
    PipelineReport,
    RecoverViewInplace,
    ReinplaceInplaceable,
    ReinplaceInputMutated,
    default_passes,
)
from air_fxpasses.testing import compiled_graph, copied, difference, functional_graph, run_graph

aten = torch.ops.aten


def reinplaced(function: Callable[..., Any], *inputs: torch.Tensor) -> tuple[list[str], list[str]]:
    """(operators of the result, reasons), after checking that nothing changed for the caller."""
    gm = functional_graph(function, *inputs)
    eager = run_graph(gm, copied(inputs))
    report = Pipeline([ReinplaceInplaceable()], verify=True).run(gm, inputs)
    assert not any(step.rolled_back for step in report.steps), report.explain()
    assert difference(eager, run_graph(gm, copied(inputs))) is None
    return targets(list(gm.graph.nodes)), [r.reason for r in report.refusals]


def targets(nodes: list[Node]) -> list[str]:
    return [str(n.target) for n in nodes if n.op == "call_function"]


x, y = torch.arange(12.0).reshape(3, 4), torch.ones(3, 4)


def test_S14_a_chain_of_pointwise_operators_uses_one_buffer() -> None:
    ops, reasons = reinplaced(lambda x: torch.mm(x, x.t()).add(1).relu().mul(2), x)
    assert ops == [
        "aten.t.default",
        "aten.mm.default",
        "aten.add_.Tensor",
        "aten.relu_.default",
        "aten.mul_.Tensor",
    ]
    assert reasons == []


def test_S14_a_scatter_becomes_a_write_into_the_slot() -> None:
    ops, _ = reinplaced(lambda x, y: torch.slice_scatter(x + 1, y[:, :2], 1, 1, 3), x, y)
    assert ops == ["aten.add.Tensor", "aten.slice.Tensor", "aten.slice.Tensor", "aten.copy_.default"]


def test_S14_nested_slots_become_one_write() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        z = x + 1
        z[1, 2:].fill_(7)
        return z

    ops, _ = reinplaced(f, x)
    assert "aten.fill_.Scalar" in ops
    assert not [op for op in ops if "scatter" in op or op == "aten.copy_.default"]


def test_S14_a_copy_that_is_written_later_is_not_made_when_the_original_is_dead() -> None:
    ops, _ = reinplaced(lambda x: (x + 1).clone().mul(2), x)
    assert ops == ["aten.add.Tensor", "aten.mul_.Tensor"]


def test_S14_a_list_of_tensors_is_updated_in_place() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return list(torch._foreach_add([x + 1, y * 2], 3))

    ops, _ = reinplaced(f, x, y)
    assert "aten._foreach_add_.Scalar" in ops


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: ((z := x + 1) * 2, z.sum())[0] + z, "the old value is read later"),
        (lambda x: ((z := x + 1) * 2, z), "the old value is returned"),
        (lambda x: ((z := x + 1) * 2, z[0].sum()), "the old value is read later"),
        (lambda x: x * 2, "the memory of the input 'x_1', which must not change"),
        (lambda x: x.t() * 2, "the memory of the input 'x_1', which must not change"),
        (
            lambda x: (x + 1).sum(0, keepdim=True).expand(3, 4) * 2,
            "expanded: several elements share one address",
        ),
        (lambda x: (x + 1).as_strided((3, 2), (1, 1)) * 2, "strides overlap"),
        (lambda x: (z := x + 1) * z, "the same tensor is passed to it twice"),
        (lambda x: (z := x + 1)[:2] * z[1:], "overlaps the memory it would write"),
        (lambda x: (x + 1).gt(3), "the result is torch.bool, the argument is torch.float32"),
        (lambda x: x.sum(0) + x, "the result has size"),
        (lambda x: (x + 1)[1:] * 2, "would lie inside a larger memory"),
        (lambda x: (x + 1)[:1] * 2, "would lie inside a larger memory"),
        (lambda x: ((z := x.new_zeros(8))[:4] + 1, z[4:])[0:2], "returned"),
    ],
)
def test_S14_refuses_with_the_reason(function: Callable[..., Any], reason: str) -> None:
    _, reasons = reinplaced(lambda x: function(x), x)
    assert any(reason in r for r in reasons), reasons


def test_S14_random_draws_are_not_moved_into_place_unless_they_are_the_same_draws() -> None:
    gm = functional_graph(lambda x: aten.bernoulli.p(x + 1, 0.5), x)
    report = Pipeline([ReinplaceInplaceable()]).run(gm, [x])
    assert any("draws random numbers" in r.reason for r in report.refusals)
    gm = functional_graph(lambda x: aten.uniform(x + 1), x)
    torch.manual_seed(3)
    eager = gm(x)
    Pipeline([ReinplaceInplaceable()]).run(gm, [x])
    assert "aten.uniform_.default" in targets(list(gm.graph.nodes))
    torch.manual_seed(3)
    assert torch.equal(gm(x), eager)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_product_of_half_precision_with_a_number_is_not_put_where_it_rounds_otherwise(
    dtype: torch.dtype,
) -> None:
    values = torch.rand(64).to(dtype)
    ops, reasons = reinplaced(lambda x: aten.mul.Scalar(x + 1, 0.1), values)
    others, more = reinplaced(lambda x: aten._foreach_mul.Scalar([x + 1, x + 2], 0.1), values)
    why = "its in-place form rounds the number to half precision first"
    is_half = dtype is not torch.float32
    assert (ops[-1], "aten._foreach_mul.Scalar" in others) == (
        "aten.mul.Scalar" if is_half else "aten.mul_.Scalar",
        is_half,
    )
    assert (why in reasons, why in more) == (is_half, is_half)


def test_the_refusal_names_the_reader_and_both_source_lines() -> None:
    from air_fxpasses.testing import compiled_graph

    def f(x: torch.Tensor) -> torch.Tensor:
        old = x + 1
        new = old * 2
        return new - old.sum()

    report = Pipeline([ReinplaceInplaceable()]).run(compiled_graph(f, x))
    refusal = next(r for r in report.refusals if "read later" in r.reason)
    assert (refusal.node, refusal.at) == ("mul", "sum_1")
    assert refusal.source is not None
    assert refusal.source.code == "new = old * 2"
    assert refusal.at_source is not None
    assert refusal.at_source.code == "return new - old.sum()"


def test_W6_a_result_read_by_absolute_offset_stays_where_it_is() -> None:
    """The private buffer of such a value must not get the strides or the offset of another one."""
    _, reasons = reinplaced(lambda x: ((x + 1).view(-1)[4:8] * 2).as_strided((2,), (1,), 0), x)
    assert any("absolute storage offset" in r for r in reasons), reasons


def test_W6_strides_are_never_changed_under_a_view() -> None:
    """Nothing has to turn views into reshapes: a value keeps the strides it was traced with."""
    ops, reasons = reinplaced(lambda x: (torch.mm(x, x.t())[:, :2] + 1).view(-1), x)
    assert "aten.view.default" in ops
    assert any("strides" in r for r in reasons), reasons


def test_S17_the_seeds_rule_switches_both_passes_off_and_says_so() -> None:
    gm = functional_graph(lambda x: (x + 1) * 2, x)
    text = str(gm.graph)
    why = "the graph uses several streams"
    own = (RecoverViewInplace, ReinplaceInplaceable, ReinplaceInputMutated)
    passes = [type(one)(off_because=why) if isinstance(one, own) else one for one in default_passes()]
    report: PipelineReport = Pipeline(passes).run(gm, [x])
    assert str(gm.graph) == text
    assert {r.reason for r in report.refusals} == {"the graph uses several streams"}


class TwoStreams:
    """Nodes whose source is `mul` run on a stream of their own, ordered with nothing."""

    def concurrent(self, a: Node, b: Node) -> bool:
        return (a.target is aten.mul.Tensor) != (b.target is aten.mul.Tensor)

    def happens_before(self, a: Node, b: Node) -> bool:
        return not self.concurrent(a, b) and a < b


def test_N08_an_earlier_reader_on_another_stream_forbids_the_write() -> None:
    gm = functional_graph(lambda x: ((z := x + 1) * 2, z.relu()), x)
    report = Pipeline([ReinplaceInplaceable()], ordering=TwoStreams()).run(gm, [x])
    assert "aten.relu.default" in targets(list(gm.graph.nodes))
    assert any("on another stream at the same time" in r.reason for r in report.refusals)


def test_N08_ordered_work_on_one_stream_is_still_reinplaced() -> None:
    gm = functional_graph(lambda x: (x + 1).relu(), x)
    Pipeline([ReinplaceInplaceable()], ordering=TwoStreams()).run(gm, [x])
    assert "aten.relu_.default" in targets(list(gm.graph.nodes))


def test_fuzz_a_scatter_into_an_expanded_base_reads_its_slot_through_other_elements() -> None:
    """Found by fuzzing: the slot of a scatter is not unread when elements of the base share addresses."""

    def f(x: torch.Tensor) -> torch.Tensor:
        base = (x + 1)[0].expand(3, 4)
        return torch.diagonal_scatter(base, base.diagonal() + 1)

    ops, _ = reinplaced(f, x)
    assert "aten.diagonal_scatter.default" in ops


def test_metadata_follows_the_value_to_its_new_home() -> None:
    gm = functional_graph(lambda x: (x + 1).relu().view(-1).neg(), x)
    Pipeline([ReinplaceInplaceable()]).run(gm, [x])
    calls = [n for n in gm.graph.nodes if n.op == "call_function"]
    storages = {n.meta["val"].untyped_storage()._cdata for n in calls}
    assert len(storages) == 1


def test_W6_a_result_that_a_branch_reads_by_absolute_offset_stays_where_it_is() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        part = (x + 1)[1:] * 2

        def window(value: torch.Tensor) -> torch.Tensor:
            return value.as_strided((2,), (1,), 1) * 3

        chosen: torch.Tensor = torch.cond(x.sum() > 0, window, lambda value: window(value) + 1, (part,))
        return chosen

    gm = compiled_graph(f, x)
    eager = run_graph(gm, copied([x]))
    report = Pipeline([ReinplaceInplaceable()]).run(gm, [x])
    assert difference(eager, run_graph(gm, copied([x]))) is None
    assert any("absolute storage offset" in r.reason for r in report.refusals)


def test_fuzz_a_scatter_hands_the_offset_of_its_base_to_an_absolute_read() -> None:
    """Found by fuzzing: the base moves into a slice, its scatter keeps that offset, a window reads from zero."""

    def f(x: torch.Tensor) -> torch.Tensor:
        rows = (x + 1)[1:].masked_fill(x[1:] > 5, 2)
        return torch.slice_scatter(rows, x[1:, :1], 1, 2, 3).as_strided((2,), (2,), 0)

    _, reasons = reinplaced(f, x)
    assert any("absolute storage offset" in r for r in reasons), reasons
