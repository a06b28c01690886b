"""The model of the multi-stream guide: it runs unchanged, has a known plan, and each of its syncs counts."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch.fx import GraphModule, Node

from air_streams import StreamPlan
from air_streams._library import EVENT_WAIT, RECORD_STREAM
from streams_models import DEPENDENT_PLAN, GUIDE_PLAN, DependentModel, GuideModel, compiled, inputs


@pytest.mark.parametrize("dynamic", [False, True])
def test_S22_the_guide_model_equals_eager_and_has_the_recorded_plan(dynamic: bool) -> None:
    model, given = GuideModel(), inputs()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Guards may run slower")  # torch on Python 3.13.0
        result, backend = compiled(model, *given, dynamic=dynamic)
    for got, expected in zip(result, model(*given), strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert len(backend.plans) == 1
    assert backend.plans[0].describe() == GUIDE_PLAN
    assert backend.plans[0].check() == ()
    assert backend.plans[0].redundant() == ()
    resources = backend.plans[0].resources
    assert [str(use.stream) for use in resources.streams] == ["entry stream", "stream '1'", "stream '2'"]
    assert len(resources.events) == 4


def test_the_guide_model_can_be_instantiated_twice_and_each_has_its_own_events() -> None:
    first, second, given = GuideModel(), GuideModel(), inputs()
    assert first.tagged_event1.tag == second.tagged_event1.tag == "66"
    assert first.tagged_event1.key != second.tagged_event1.key
    both, backend = compiled(lambda *args: (first(*args), second(*args)), *given)
    for got, expected in zip(both[1], second(*given), strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
    plan = backend.plans[0]
    assert plan.check() == ()
    assert len(plan.resources.streams) == 3, "the same tags are the same streams"
    user_events = [event for event in plan.resources.events if event.origin == "user"]
    assert len(user_events) == 4


def dependent_graph(*, dynamic: bool = False) -> GraphModule:
    _, backend = compiled(DependentModel(), *inputs(), dynamic=dynamic)
    assert backend.plans[0].describe() == DEPENDENT_PLAN
    return backend.graphs[0]


def without(gm: GraphModule, node: Node) -> StreamPlan:
    """The plan of the graph less one node."""
    rest = copy.deepcopy(gm)
    found = next(other for other in rest.graph.nodes if other.name == node.name)
    rest.graph.erase_node(found)
    return StreamPlan.of(rest, sync="off")


@pytest.mark.parametrize("dynamic", [False, True])
def test_removing_any_sync_of_the_dependent_model_reports_exactly_its_pair(dynamic: bool) -> None:
    gm = dependent_graph(dynamic=dynamic)
    syncs = [node for node in gm.graph.nodes if node.target in (EVENT_WAIT, RECORD_STREAM)]
    names = {node.target.name() + str(node.args[-2]) for node in syncs}
    assert len(syncs) == len(names) == 3
    expected = [("race", "add", "mm"), ("lifetime", "mm", "mm_1"), ("race", "mm", None)]
    for node, (kind, first, second) in zip(syncs, expected, strict=True):
        findings = without(gm, node).check()
        assert [finding.kind for finding in findings] == [kind]
        assert findings[0].first.name == first
        assert second is None or findings[0].second.name == second


@pytest.mark.parametrize("index", [0, 1])
def test_removing_a_wait_of_the_guide_model_loses_exactly_the_order_the_guide_promises(index: int) -> None:
    """Its waits order work that shares no data, so nothing races without them: only this order is lost."""
    _, backend = compiled(GuideModel(), *inputs())
    gm, plan = backend.graphs[0], backend.plans[0]
    wait = [node for node in gm.graph.nodes if node.target is EVENT_WAIT][index]
    less = without(gm, wait)
    assert less.check() == ()
    assert lost_orders(plan, less) == [{("add", "mm")}, {("mm", "add_3")}][index] | lost_by_chain(index)


def lost_by_chain(index: int) -> set[tuple[str, str]]:
    """What came first through the lost wait also came before all that follows it."""
    return [{("add", "add_1"), ("add", "add_3")}, {("add", "add_3")}][index]


def lost_orders(plan: StreamPlan, less: StreamPlan) -> set[tuple[str, str]]:
    def orders(of: StreamPlan) -> set[tuple[str, str]]:
        works = [n for n in of.nodes if n.op == "call_function" and "air_streams" not in str(n.target)]
        return {(a.name, b.name) for a in works for b in works if of.ordering.happens_before(a, b)}

    return orders(plan) - orders(less)
