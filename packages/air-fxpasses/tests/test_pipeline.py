"""Steps are atomic, ordered, timed, listed, proven, and can be bisected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch.fx import GraphModule

from air_fxpasses import (
    CustomPass,
    Facts,
    Invariant,
    Pass,
    PassResult,
    Pipeline,
    Refusal,
    default_passes,
    register_bisection,
)
from air_fxpasses.errors import BadArgument, PassFailed, RequirementNotMet
from air_fxpasses.testing import compiled_graph, functional_graph, run_graph

aten = torch.ops.aten


@dataclass(frozen=True)
class Edit(Pass):
    """Runs a function and says it changed the graph."""

    name: ClassVar[str] = "edit"
    action: Any = None

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        self.action(gm, facts)
        facts.refresh()
        return PassResult(True)


def model(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).neg() * 2


def half_way(gm: GraphModule, facts: Facts) -> None:
    node = next(n for n in gm.graph.nodes if n.target is aten.neg.default)
    node.target = aten.abs.default
    facts.erase(next(n for n in gm.graph.nodes if n.target is aten.mul.Tensor))


def test_W23_a_pass_that_raises_half_way_leaves_the_graph_as_it_was_and_names_node_and_line() -> None:
    def fails(gm: GraphModule, facts: Facts) -> None:
        node = next(n for n in gm.graph.nodes if n.target is aten.neg.default)
        node.target = aten.abs.default
        with gm.graph.inserting_before(node):
            facts.insert_before(node, aten.mm.default, (node.args[0], node.args[0]))

    gm = compiled_graph(model, torch.ones(4))
    before = str(gm.graph)
    with pytest.raises(PassFailed) as caught:
        Pipeline([Edit(fails)]).run(gm)
    assert str(gm.graph) == before
    error = caught.value
    assert error.pass_name == "edit"
    assert "test_pipeline.py" in str(error)
    assert "(x + 1).neg() * 2" in str(error)
    assert "the graph is unchanged" in str(error)
    assert torch.equal(run_graph(gm, [torch.ones(4)]).outputs[0], model(torch.ones(4)))


def test_N14_a_step_that_changes_results_is_rolled_back_and_the_rest_still_runs() -> None:
    def wrong(gm: GraphModule, facts: Facts) -> None:
        next(n for n in gm.graph.nodes if n.target is aten.neg.default).target = aten.abs.default

    x = torch.arange(4.0)
    gm = functional_graph(model, x)
    report = Pipeline([Edit(wrong), *default_passes()], verify=True).run(gm, [x])
    assert "output 0 differs" in report.steps[0].rolled_back
    assert report.step("reinplace_inplaceable").modified
    assert "rolled back" in report.explain()
    assert torch.equal(run_graph(gm, [x]).outputs[0], model(x))


@dataclass(frozen=True)
class Claims(Pass):
    """Edits the graph and gives what it is told to."""

    name: ClassVar[str] = "claims"
    result: Any = None

    def __call__(self, gm: GraphModule, facts: Facts) -> Any:
        for node in gm.graph.find_nodes(op="call_function", target=aten.mul.Tensor):
            node.target = aten.div.Tensor
        facts.refresh()
        return self.result


def test_N14_a_step_that_says_it_changed_nothing_is_looked_at_as_well() -> None:
    x = torch.randn(3)
    gm = compiled_graph(model, x)
    wanted = str(gm.graph)
    report = Pipeline([Claims(PassResult(False))], verify=True).run(gm, [x])
    assert report.step("claims").rolled_back
    assert "said that it did not" in report.step("claims").notes[0]
    assert str(gm.graph) == wanted


def test_a_pass_that_gives_nothing_is_undone_and_told_what_to_give() -> None:
    gm = compiled_graph(model, torch.randn(3))
    wanted = str(gm.graph)
    with pytest.raises(PassFailed, match=r"claims.*PassResult"):
        Pipeline([Claims()]).run(gm)
    assert str(gm.graph) == wanted


def test_a_change_without_a_note_is_no_no_change() -> None:
    gm = compiled_graph(model, torch.randn(3))
    assert "nodes]  changed" in Pipeline([Claims(PassResult(True))]).run(gm).explain()


def test_N14_a_step_that_writes_an_input_is_rolled_back() -> None:
    def wrong(gm: GraphModule, facts: Facts) -> None:
        next(n for n in gm.graph.nodes if n.target is aten.add.Tensor).target = aten.add_.Tensor

    x = torch.arange(4.0)
    gm = functional_graph(model, x)
    report = Pipeline([Edit(wrong)], verify=True).run(gm, [x])
    assert "input 0 differs" in report.steps[0].rolled_back


def test_N14_a_step_that_returns_an_input_as_output_is_rolled_back() -> None:
    def wrong(gm: GraphModule, facts: Facts) -> None:
        clone = next(n for n in gm.graph.nodes if n.target is aten.clone.default)
        clone.replace_all_uses_with(clone.args[0])

    x = torch.arange(4.0)
    gm = functional_graph(lambda x: x.clone(), x)
    report = Pipeline([Edit(wrong)], verify=True).run(gm, [x])
    assert "shares memory with input 0" in report.steps[0].rolled_back


def test_N14_generated_inputs_prove_a_graph_that_has_only_fake_ones() -> None:
    gm = compiled_graph(model, torch.ones(4))
    report = Pipeline(default_passes(), verify=True).run(gm)
    assert not report.unverified
    assert report.modified


def test_N14_values_of_four_bits_are_made_and_compared_as_their_bytes() -> None:
    def copies(q: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return q.clone(), q[1:3].clone(), x + 1 - 1

    def another(gm: GraphModule, facts: Facts) -> None:
        node = next(n for n in gm.graph.nodes if n.target is aten.slice.Tensor)
        node.args = (*node.args[:2], 0, 2)

    def made() -> GraphModule:
        packed = torch.arange(64, dtype=torch.uint8).view(4, 16).view(torch.float4_e2m1fn_x2)
        return compiled_graph(copies, packed, torch.ones(4))

    assert not Pipeline(default_passes(), verify=True).run(made()).unverified
    report = Pipeline([Edit(another)], verify=True).run(made())
    assert "output 1 differs" in (report.steps[0].rolled_back or "")


def test_numerics_that_cannot_be_checked_are_said_not_to_be() -> None:
    x = torch.zeros(4, dtype=torch.int64)
    gm = functional_graph(lambda x: torch.ones(2)[x], x)
    report = Pipeline(default_passes(), verify=True).run(gm, [x + 7])
    assert "does not run on these inputs" in report.unverified
    assert "numerics not verified" in report.explain()


NO_NEG = Invariant(
    "no neg", lambda gm: next((n.name for n in gm.graph.nodes if n.target is aten.neg.default), None)
)


@dataclass(frozen=True)
class NeedsNoNeg(Pass):
    name: ClassVar[str] = "needs_no_neg"
    requires: ClassVar[tuple[Invariant, ...]] = (NO_NEG,)

    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        return PassResult(False, (Refusal("nothing to do", "x"),))


def test_a_requirement_that_does_not_hold_is_an_error_that_names_what_violates_it() -> None:
    gm = functional_graph(model, torch.ones(4))
    with pytest.raises(RequirementNotMet, match=r"requires 'no neg'.*neg"):
        Pipeline([NeedsNoNeg()]).run(gm)
    harmless = functional_graph(lambda x: x + 1, torch.ones(4))
    assert Pipeline([NeedsNoNeg()]).run(harmless).refusals[0].reason == "nothing to do"


def test_listings_show_the_graph_around_the_passes_asked_for() -> None:
    seen: list[tuple[str, str, str]] = []
    gm = functional_graph(model, torch.ones(4))
    pipeline = Pipeline(
        default_passes(), listing=lambda *texts: seen.append(texts), list_passes=["reinplace_inplaceable"]
    )
    pipeline.run(gm)
    assert [name for name, _, _ in seen] == ["reinplace_inplaceable"]
    assert "aten.neg.default" in seen[0][1]
    assert "aten.neg_.default" in seen[0][2]


def test_the_report_is_data() -> None:
    gm = functional_graph(model, torch.ones(4))
    data = Pipeline(default_passes()).run(gm).to_dict()
    step = next(s for s in data["steps"] if s["name"] == "reinplace_inplaceable")
    assert step["modified"]
    assert step["seconds"] > 0
    assert {"reason", "node", "target", "source", "at", "at_source"} <= set(step["refusals"][0])


def test_torchs_bisector_finds_the_pass_that_breaks_a_program() -> None:
    from torch._inductor.compiler_bisector import BACKENDS, CompilerBisector

    def wrong(gm: GraphModule, facts: Facts) -> None:
        next(n for n in gm.graph.nodes if n.op == "call_function").target = aten.sub.Tensor

    x = torch.arange(4.0)

    def is_right() -> bool:
        gm = functional_graph(lambda x: x + 1, x)
        first, *rest = default_passes()
        Pipeline([first, Edit(wrong), *rest]).run(gm, [x])
        return torch.equal(run_graph(gm, [x]).outputs[0], x + 1)

    others = {name: BACKENDS.pop(name) for name in list(BACKENDS) if name != "air"}
    register_bisection()
    BACKENDS.update(others)
    found = CompilerBisector.do_bisect(is_right)
    assert found is not None
    assert (found.backend, found.subsystem, found.bisect_number, found.debug_info) == (
        "air",
        "fx_passes",
        1,
        "edit",
    )


def test_running_twice_changes_nothing_more() -> None:
    gm = functional_graph(lambda x, i, v: (x.index_put_((i,), v), (x + 1).relu() * 2)[1], *cache_inputs())
    Pipeline(default_passes()).run(gm)
    text = str(gm.graph)
    assert not Pipeline(default_passes()).run(gm).modified
    assert str(gm.graph) == text


def cache_inputs() -> tuple[torch.Tensor, ...]:
    return torch.zeros(4, 3), torch.tensor([1]), torch.ones(1, 3)


class Unnamed(Pass):
    def __call__(self, gm: GraphModule, facts: Facts) -> PassResult:
        return PassResult(False)


class GivesNothing(Unnamed):
    name: ClassVar[str] = "gives_nothing"

    def __call__(self, gm: GraphModule, facts: Facts) -> Any:
        gm.graph.lint()


def edits(gm: GraphModule) -> None: ...


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            Unnamed(),
            r"passes\[1\], a Unnamed, has no name\n  advice  write `name: ClassVar\[str\] = .* in Unnamed",
        ),
        (GivesNothing, r"passes\[1\] is the class GivesNothing\n  advice  give GivesNothing\(\)"),
        (edits, r'passes\[1\] is a function.*\n  advice  CustomPass\(edits, "a name"\)'),
        (lambda gm: None, r'CustomPass\(function, "a name"\)'),
        ("eliminate_cat", r"passes\[1\] is a str, and no pass\n  advice  give objects"),
        (None, r"passes\[1\] is a NoneType"),
    ],
)
def test_what_is_no_pass_is_refused_where_it_is_given(given: Any, said: str) -> None:
    with pytest.raises(BadArgument, match=said):
        Pipeline([CustomPass(edits), given])


def test_a_pass_that_gives_no_result_has_failed_and_is_undone() -> None:
    gm = compiled_graph(lambda x: x + 1, torch.ones(2))
    with pytest.raises(
        PassFailed, match=r"'gives_nothing' failed: TypeError: it returns NoneType; .*PassResult\("
    ):
        Pipeline([GivesNothing()]).run(gm)
