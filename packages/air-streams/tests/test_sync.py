"""sync="auto" makes any program right, and adds nothing that is not needed; the other modes only tell."""

from __future__ import annotations

import random
import warnings

import pytest
import torch
from torch.fx import Graph

from air_streams import Lifetime, StreamPlan, StreamRaceWarning, apply_sync, errors
from air_streams._library import EVENT_WAIT
from streams_device import run, run_eagerly
from streams_programs import Op, graph_of, on_stream, random_dataflow

SCHEDULES = 20


def values(graph: Graph) -> list[torch.Tensor]:
    count = sum(node.op == "placeholder" for node in graph.nodes)
    return [torch.arange(4) + 1 + number for number in range(count)]


def is_right(graph: Graph, plan: StreamPlan, source: random.Random) -> bool:
    inputs = values(graph)
    expected = run_eagerly(graph, inputs)
    for _ in range(SCHEDULES):
        got = run(plan, inputs, source)
        if not all(torch.equal(a, b) for a, b in zip(got, expected, strict=True)):
            return False
    return True


@pytest.mark.parametrize("programs", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_N06_auto_makes_stripped_programs_equal_to_eager_in_random_schedules(programs: int) -> None:
    source = random.Random(31)
    wrong_before, mended_waits, mended_lifetimes = 0, 0, 0
    for _ in range(programs):
        graph = random_dataflow(source, length=source.randint(3, 14), streams=3, inputs=2)
        wrong_before += not is_right(graph, StreamPlan.of(graph, sync="off"), source)
        plan = StreamPlan.of(graph, sync="auto")
        assert is_right(graph, plan, source), graph
        assert plan.check() == ()
        inserted = set(plan.sync_report.inserted)
        assert not [wait for wait in plan.redundant() if wait.second in inserted], plan.redundant()
        waits = sum(node.target is EVENT_WAIT for node in inserted)
        mended_waits += waits
        mended_lifetimes += len(plan.sync_report.mended) - waits
    assert wrong_before > programs / 2
    assert mended_waits > programs
    assert mended_lifetimes > programs / 10


def test_N06_a_missing_record_stream_makes_a_schedule_wrong_and_auto_is_what_mends_it() -> None:
    source = random.Random(5)
    shown = 0
    for _ in range(120):
        graph = random_dataflow(source, length=12, streams=3, inputs=2)
        report = apply_sync(graph, "auto")
        kept = [node for node in report.inserted if node.target is not EVENT_WAIT and len(node.args) == 2]
        if not kept:
            continue
        for node in kept:
            graph.erase_node(node)
        plan = StreamPlan.of(graph, sync="off")
        assert plan.races() == ()
        assert len(plan.lifetimes()) == len(kept)
        shown += not is_right(graph, plan, source)
    assert shown > 8


def test_N06_auto_inserts_nothing_into_its_own_result() -> None:
    source = random.Random(3)
    for _ in range(50):
        graph = random_dataflow(source, length=10, streams=4, inputs=2)
        apply_sync(graph, "auto")
        assert apply_sync(graph, "auto").inserted == ()


RACY = (Op(0, "write", 0), Op(1, "read", 0))


def test_check_warns_with_the_pair_both_lines_and_the_wait_to_add() -> None:
    graph, nodes = graph_of(RACY, 1)
    for node, line in zip(nodes, (11, 22), strict=True):
        node.meta["stack_trace"] = f'  File "model.py", line {line}, in forward\n    code_{line}'
    with pytest.warns(StreamRaceWarning) as caught:
        StreamPlan.of(graph)
    text = str(caught[0].message)
    assert "model.py:11   code_11" in text
    assert "model.py:22   code_22" in text
    assert "npu_tagged_event_wait" in text
    assert "event = npu_create_tagged_event(" in text
    assert (caught[0].filename, caught[0].lineno) == ("model.py", 22)


def test_error_raises_with_all_findings() -> None:
    graph, _ = graph_of((*RACY, Op(0, "wait", 3)), 1)
    with pytest.raises(errors.StreamCheckError, match="2 finding") as caught:
        StreamPlan.of(graph, sync="error")
    assert "\n  at      race: " in str(caught.value)
    assert "\n  at      unsatisfied wait: " in str(caught.value)


def test_a_block_that_an_executor_keeps_is_told_by_the_plan_and_no_warning_or_error() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    made = graph.call_function(torch.ops.aten.neg.default, (x,))
    graph.call_function(torch.ops.air_streams.event_record.default, ("made",))
    on_stream(graph, 1, (torch.ops.air_streams.event_wait.default, ("made",), {}))
    used = on_stream(graph, 1, (torch.ops.aten.neg.default, (made,), {}))
    graph.output((used, graph.call_function(torch.ops.aten.neg.default, (x,))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plans = [StreamPlan.of(graph, sync=sync) for sync in ("check", "error")]
    assert all([type(finding) for finding in plan.check()] == [Lifetime] for plan in plans)


def test_off_says_nothing() -> None:
    graph, _ = graph_of(RACY, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        StreamPlan.of(graph, sync="off")


def test_an_unknown_mode_is_an_error_that_lists_the_modes() -> None:
    graph, _ = graph_of(RACY, 1)
    with pytest.raises(errors.InvalidArgument, match="check, error, auto, off"):
        StreamPlan.of(graph, sync="atuo")


def test_the_report_of_auto_explains_each_insertion() -> None:
    graph, _ = graph_of(RACY, 1)
    report = StreamPlan.of(graph, sync="auto").sync_report
    assert "against race" in report.explain()
    assert len(report.inserted) == 2


def test_a_plan_held_to_a_mode_is_what_that_mode_gives_and_is_only_read_again_after_a_change() -> None:
    source = random.Random(7)
    mended = kept = 0
    for _ in range(60):
        graph = random_dataflow(source, length=source.randint(3, 10), streams=3, inputs=2)
        plan = StreamPlan.of(graph, sync="off")
        right = plan.check() == ()
        held = plan.held_to("auto", graph)
        assert (held is plan) == right
        assert held.check() == ()
        mended, kept = mended + (held is not plan), kept + right
        if not right:
            with pytest.raises(errors.StreamCheckError):
                plan.held_to("error", graph)
    assert mended > 10
    assert kept > 0


ORDERED = (Op(0, "write", 0), Op(0, "record", 1), Op(1, "wait", 1), Op(1, "read", 0))


def without_waits(graph: Graph) -> None:
    for node in graph.find_nodes(op="call_function", target=EVENT_WAIT):
        graph.erase_node(node)


def test_a_race_that_a_pass_made_is_told_when_the_plan_is_read_again() -> None:
    graph, _ = graph_of(ORDERED, 1)
    plan = StreamPlan.of(graph, sync="error")
    without_waits(graph)
    with pytest.warns(StreamRaceWarning, match="a pass made the multi-stream program incorrect: race"):
        assert plan.read_again(graph).races()
    with pytest.raises(errors.StreamCheckError, match=r"a pass made .* 1 finding"):
        plan.read_again(graph, sync="error")
    assert plan.read_again(graph, sync="auto").check() == ()


def test_what_was_told_before_the_passes_is_not_told_again_and_what_was_mended_stays_in_the_report() -> None:
    graph, _ = graph_of(RACY, 1)
    with pytest.warns(StreamRaceWarning):
        plan = StreamPlan.of(graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plan.read_again(graph).races() == plan.races()
    mended = StreamPlan.of(graph, sync="auto")
    assert mended.read_again(graph, sync="auto").sync_report == mended.sync_report
