"""Fusion patterns: where they apply, and the reason where they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.fx import Node
from torch.fx.experimental.proxy_tensor import make_fx

from air_fxpasses import (
    FusePatterns,
    FusionPattern,
    Match,
    Pipeline,
    ProgramOrder,
    default_passes,
    register_replacement,
)
from air_fxpasses.errors import BadRegistration
from air_fxpasses.patterns import register_pattern, registered_patterns, unregister_pattern
from air_fxpasses.testing import compiled_graph, difference, functional_graph, run_graph

aten = torch.ops.aten

x, w, b = torch.randn(3, 4), torch.randn(4, 5), torch.randn(5)


def linear(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.mm(x, w) + b)


def fused_linear(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(torch.addmm(b, x, w))


def norm(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    return x * scale, scale


def fused_norm(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
    return x * scale, scale


LINEAR = FusionPattern("linear", linear, fused_linear, lambda: (x, w, b))
NORM = FusionPattern("norm", norm, fused_norm, lambda: (torch.empty(2, 3),), scalars={"eps": 2.5e-6})


@pytest.fixture(autouse=True)
def _table_as_it_was() -> Iterator[None]:
    before = {row.name for row in registered_patterns()}
    yield
    for row in registered_patterns():
        if row.name not in before:
            unregister_pattern(row.name)


def fused(
    function: Callable[..., Any], *inputs: torch.Tensor, row: FusionPattern = LINEAR, ordering: Any = None
) -> tuple[list[str], list[str]]:
    gm = functional_graph(function, *inputs)
    eager = run_graph(gm, inputs)
    report = Pipeline([FusePatterns((row,))], ordering=ordering, verify=True).run(gm, inputs)
    assert not any(s.rolled_back for s in report.steps), report.explain()
    assert difference(eager, run_graph(gm, inputs), 1e-4) is None
    return [str(n.target) for n in gm.graph.nodes if n.op == "call_function"], [
        r.reason for r in report.refusals
    ]


def test_a_match_is_replaced_whatever_its_sizes() -> None:
    ops, _ = fused(
        lambda x, w, b: linear(x, w, b).neg(), torch.randn(7, 2), torch.randn(2, 9), torch.randn(9)
    )
    assert ops == ["aten.addmm.default", "aten.relu.default", "aten.neg.default"]


def test_every_match_is_replaced() -> None:
    ops, _ = fused(lambda x, w, b: linear(linear(x, w, b), w.t(), x.new_ones(4)), x, w, b)
    assert ops.count("aten.addmm.default") == 2


def test_numbers_are_bound_and_passed_on() -> None:
    ops, _ = fused(lambda x: norm(x, 0.5)[0], x, row=NORM)
    assert "aten.pow.Tensor_Scalar" not in ops


def test_a_second_result_is_found_among_the_users() -> None:
    ops, _ = fused(lambda x: norm(x, 1e-3), x, row=NORM)
    assert "aten.pow.Tensor_Scalar" not in ops


def test_symbolic_sizes_match() -> None:
    gm = functional_graph(lambda x, w, b: linear(x, w, b), x, w, b, is_dynamic=True)
    assert Pipeline([FusePatterns((LINEAR,))]).run(gm).modified


@pytest.mark.parametrize(
    ("function", "row", "reason"),
    [
        (lambda x, w, b: torch.relu((m := torch.mm(x, w)) + b) + m, LINEAR, "'mm' is used elsewhere"),
        (lambda x, w, b: torch.relu(torch.mm(x, w) * 2), LINEAR, None),
        (lambda x, w, b: norm(x, 1e-3)[0] * x.pow(2).mean(0), NORM, None),
        (
            lambda x, w, b: x * torch.rsqrt(x.pow(3).mean(-1, keepdim=True) + 1e-3),
            NORM,
            "argument 'exponent' is 3",
        ),
        (
            lambda x, w, b: x * torch.rsqrt(b.new_ones(3, 4).pow(2).mean(-1, True) + 1e-3),
            NORM,
            "two different values",
        ),
    ],
)
def test_what_does_not_match_says_why(function: Any, row: FusionPattern, reason: str | None) -> None:
    before = [
        str(n.target) for n in functional_graph(function, x, w, b).graph.nodes if n.op == "call_function"
    ]
    ops, reasons = fused(function, x, w, b, row=row)
    if reason is None:
        return
    assert ops == before
    assert any(reason in r for r in reasons), reasons


def test_the_patterns_own_check_may_give_a_reason() -> None:
    def check(match: Match) -> str | None:
        return None if match.value("x").size(0) % 2 == 0 else "rows must be even"

    row = FusionPattern("even", linear, fused_linear, lambda: (x, w, b), extra_check=check)
    assert any("even: rows must be even" in r for r in fused(linear, x, w, b, row=row)[1])
    assert "aten.addmm.default" in fused(linear, torch.randn(4, 4), w, b, row=row)[0]


class MmElsewhere:
    def concurrent(self, a: Node, b: Node) -> bool:
        return (a.target is torch.ops.aten.mm.default) != (b.target is torch.ops.aten.mm.default)

    def happens_before(self, a: Node, b: Node) -> bool:
        return not self.concurrent(a, b) and a < b


def test_a_match_across_streams_is_refused() -> None:
    _, reasons = fused(linear, x, w, b, ordering=MmElsewhere())
    assert any("several streams" in r for r in reasons)


class MmBefore(ProgramOrder):
    """On a stream of its own, for which the other one waits."""

    def same_stream(self, a: Node, b: Node) -> bool:
        return (a.target is torch.ops.aten.mm.default) == (b.target is torch.ops.aten.mm.default)


def test_a_match_across_streams_is_refused_where_one_waits_for_the_other() -> None:
    _, reasons = fused(linear, x, w, b, ordering=MmBefore())
    assert any("several streams" in r for r in reasons)
    assert "aten.addmm.default" in fused(linear, x, w, b, ordering=ProgramOrder())[0]


def test_a_value_written_in_between_is_refused() -> None:
    gm = functional_graph(lambda x, w, b: linear(x, w, b), x, w, b)
    relu = next(n for n in gm.graph.nodes if n.target is torch.ops.aten.relu.default)
    with gm.graph.inserting_before(relu):
        gm.graph.call_function(torch.ops.aten.zero_.default, (next(iter(gm.graph.nodes)),))
    report = Pipeline([FusePatterns((LINEAR,))]).run(gm, (x, w, b))
    assert not report.modified
    assert any("written in between" in r.reason for r in report.refusals)


class ZeroBeside(ProgramOrder):
    """The write is on a stream of its own, which waits for the product alone."""

    def concurrent(self, a: Node, b: Node) -> bool:
        zero, mm = torch.ops.aten.zero_.default, torch.ops.aten.mm.default
        return (a.target is zero) != (b.target is zero) and mm not in (a.target, b.target)

    def happens_before(self, a: Node, b: Node) -> bool:
        return not self.concurrent(a, b) and a < b

    def same_stream(self, a: Node, b: Node) -> bool:
        return not self.concurrent(a, b)


def test_a_value_that_another_stream_may_write_in_between_is_refused() -> None:
    for ordering, is_refused in ((ZeroBeside(), True), (ProgramOrder(), False)):
        gm = functional_graph(lambda x, w, b: linear(x, w, b), x, w, b)
        with gm.graph.inserting_before(gm.graph.output_node()):
            gm.graph.call_function(torch.ops.aten.zero_.default, (next(iter(gm.graph.nodes)),))
        report = Pipeline([FusePatterns((LINEAR,))], ordering=ordering).run(gm, (x, w, b))
        assert any("written in between" in r.reason for r in report.refusals) is is_refused
        assert report.modified is not is_refused


def test_a_pattern_whose_operators_are_not_loaded_sleeps() -> None:
    row = FusionPattern("asleep", linear, fused_linear, lambda: (x, w, b), requires=("nowhere::op",))
    register_pattern(row)
    gm = functional_graph(linear, x, w, b)
    assert not Pipeline([FusePatterns()]).run(gm).modified
    assert row.missing() == ("nowhere::op",)


def test_a_registered_replacement_is_part_of_the_default_passes() -> None:
    register_replacement(linear, fused_linear, [x, w, b])
    gm = functional_graph(linear, x, w, b)
    Pipeline(default_passes()).run(gm)
    assert "aten.addmm.default" in [str(n.target) for n in gm.graph.nodes]
    with pytest.raises(BadRegistration, match="searches for the same"):
        register_replacement(linear, fused_linear, [x, w, b])
    assert register_replacement(linear, fused_linear, [x, w, b], skip_duplicates=True).search is linear


@pytest.mark.parametrize(
    ("search", "replace", "examples", "problem"),
    [
        (linear, lambda x, w, b: torch.mm(x, w).t(), [x, w, b], "in search"),
        (linear, lambda x, w, b: (x, w), [x, w, b], "search gives 1 results, replace gives 2"),
        (lambda x: x.add_(1), lambda x: x, [x], "the search function writes"),
        (linear, fused_linear, [x, w], "2 example inputs"),
        (lambda x: x, lambda x: x, [x], "calls no operator"),
    ],
)
def test_pairs_that_cannot_stand_for_each_other_are_refused(
    search: Any, replace: Any, examples: list[torch.Tensor], problem: str
) -> None:
    with pytest.raises(BadRegistration, match=problem):
        register_replacement(search, replace, examples)


def test_inductors_check_functions_work_on_a_match() -> None:
    seen: list[Any] = []

    def check(match: Match) -> bool:
        seen.append(match.kwargs["x"].meta["val"])
        return True

    register_replacement(linear, fused_linear, [x, w, b], extra_check=check)
    gm = functional_graph(linear, x, w, b)
    assert Pipeline([FusePatterns()]).run(gm).modified
    assert seen[0].shape == (3, 4)


def test_A39_the_replacement_takes_its_arguments_by_position_whatever_it_calls_them() -> None:
    pair = [torch.randn(3, 4), torch.randn(3, 4)]

    def search(x: torch.Tensor, scale: float, w: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x * scale) - w

    def replace(a: torch.Tensor, factor: float, b: torch.Tensor) -> torch.Tensor:
        return torch.tanh(a) * factor - b

    register_replacement(search, replace, pair, scalar_workaround={"scale": 7.25})
    gm = functional_graph(lambda x, w: torch.sigmoid(x * 3.0) - w, *pair)
    Pipeline(default_passes()).run(gm, pair)
    first, second = pair
    torch.testing.assert_close(gm(*pair), torch.tanh(first) * 3.0 - second)


def test_A39_a_replacement_may_have_parameters_that_are_given_by_name_alone() -> None:
    pair = [torch.randn(3, 4), torch.randn(3, 4)]

    def search(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.cos(x) - w

    def replace(a: torch.Tensor, *, w: torch.Tensor) -> torch.Tensor:
        return torch.sin(a) - w

    register_replacement(search, replace, pair)
    gm = functional_graph(lambda x, w: torch.cos(x) - w, *pair)
    Pipeline(default_passes()).run(gm, pair)
    first, second = pair
    torch.testing.assert_close(gm(*pair), torch.sin(first) - second)


def _counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[None]]:
    calls: list[None] = []

    def counted(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        calls.append(None)
        result: torch.Tensor = function(x, w, b)
        return result

    return counted, calls


def test_a_pattern_is_traced_by_the_first_graph_that_has_all_of_its_operators() -> None:
    search, traced = _counted(linear)
    needed = frozenset(("aten::mm", "aten::relu"))
    row = FusionPattern("counted", search, fused_linear, lambda: (x, w, b), operators=needed)
    register_pattern(row, later=True)
    assert not traced
    fused(lambda x: x.relu() + 1, x, row=row)
    assert not traced
    ops, _ = fused(lambda x, w, b: linear(x, w, b), x, w, b, row=row)
    assert traced
    assert "aten.addmm.default" in ops


def test_a_replacement_that_is_there_but_not_traced_yet_is_met_as_well() -> None:
    register_pattern(LINEAR, later=True)
    with pytest.raises(BadRegistration, match="'linear' searches for the same"):
        register_replacement(linear, fused_linear, (x, w, b))


def doubled(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2.5


def doubled_and_turned(x: torch.Tensor) -> torch.Tensor:
    """The same numbers in another layout."""
    return (torch.relu(x.t().contiguous()) * 2.5).t()


TURNING = FusionPattern("turning", doubled, doubled_and_turned, lambda: (x,))


def of_a_branch(y: torch.Tensor) -> torch.Tensor:
    chosen: torch.Tensor = torch.cond(
        y.sum() > 0, lambda y: y.view(4, 3) + 1, lambda y: y.view(4, 3) * 2, (y,)
    )
    return chosen


@pytest.mark.parametrize(
    "read",
    [
        lambda y: y.view(4, 3),
        lambda y: (y + 1).view(4, 3),
        lambda y: y.view(torch.int32).float().view(4, 3),
        lambda y: aten._unsafe_view(y, [4, 3]),
        of_a_branch,
        lambda y: y.sort()[0].view(4, 3),
    ],
    ids=["view", "later", "of another type", "unsafe", "in a branch", "of several"],
)
def test_a_result_keeps_its_layout_where_a_view_needs_it(
    read: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    gm = compiled_graph(lambda x: torch.mm(read(doubled(x)), x[:, :2]), x)
    eager = run_graph(gm, [x])
    report = Pipeline([FusePatterns((TURNING,))]).run(gm, [x])
    assert any("layout" in refusal.reason for refusal in report.refusals)
    assert difference(eager, run_graph(gm, [x])) is None


@pytest.mark.parametrize(
    "read",
    [
        lambda y: y.exp(),
        lambda y: (y + 1).t().exp().t(),
        lambda y: torch.cat([part.neg() for part in y.exp().split(2, dim=1)], 1),
        lambda y: y.clone(memory_format=torch.contiguous_format).view(12).neg().view(3, 4),
    ],
    ids=["as it lies", "turned", "in parts", "dense"],
)
def test_a_result_may_lie_otherwise_where_nobody_looks(read: Callable[[torch.Tensor], torch.Tensor]) -> None:
    ops, _ = fused(lambda x: torch.mm(read(doubled(x)), x.new_ones(4, 2)), x, row=TURNING)
    assert "aten.t.default" in ops


def test_a_result_on_another_device_is_no_match() -> None:
    def halved(x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float16) * 2.5

    def halved_in_one(x: torch.Tensor) -> torch.Tensor:
        return (x * 2.5).to(torch.float16)

    row = FusionPattern("halved", halved, halved_in_one, lambda: (x,))
    gm = functional_graph(lambda x: x.to("meta", torch.float16) * 2.5, x)
    report = Pipeline([FusePatterns((row,))]).run(gm, [x])
    assert [refusal.reason for refusal in report.refusals if "another device" in refusal.reason]
    assert gm(x).device.type == "meta"


def written_norm(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Writes its argument and values of its own."""
    scale = x.pow(2).mean(-1, keepdim=True).add_(eps).rsqrt_()
    x.mul_(scale)
    return x, scale


def test_a_replacement_may_be_written_in_place_and_writes_nothing_of_the_graphs() -> None:
    register_pattern(
        FusionPattern("written", norm, written_norm, NORM.example_inputs, scalars={"eps": 2.5e-6})
    )

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        double = x * 2
        return (*norm(double, 1e-5), double, x)

    given = torch.randn(2, 3)
    gm = functional_graph(program, given)
    report = Pipeline([FusePatterns()]).run(gm)
    assert report.step("fuse_patterns").notes == ("1 matches of written replaced",)
    kept = given.clone()
    torch.testing.assert_close(tuple(run_graph(gm, [given]).outputs), program(kept))
    assert torch.equal(given, kept)
    assert not [n for n in gm.graph.nodes if n.op == "call_function" and n.target._schema.is_mutable]


def test_functions_that_torch_writes_in_place_are_traced_without_writes() -> None:
    def search(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, (5,), w, 1e-6) * 3

    def replace(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, (5,), w * 3, 1e-6)

    given = [torch.randn(2, 5), torch.randn(5)]
    register_replacement(search, replace, given)
    gm = compiled_graph(search, *given)
    notes = Pipeline([FusePatterns()]).run(gm).step("fuse_patterns").notes
    assert [note.endswith("replaced") for note in notes] == [True]
    torch.testing.assert_close(run_graph(gm, given).outputs[0], search(*given))


def test_a_tracing_of_ones_own_that_leaves_writes_is_refused() -> None:
    def replace(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).mul_(2)

    with pytest.raises(BadRegistration, match=r"the replace function writes \(aten.mul_.Tensor\)"):
        register_replacement(lambda x: (x + 1) * 2, replace, [x], trace_fn=lambda f, i: make_fx(f)(*i))
