"""Blocks that go back to their pool too early."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch.fx import Graph, Node

from air_streams import StreamPlan, StreamRaceWarning
from streams_programs import on_stream

ops = torch.ops.air_streams
aten = torch.ops.aten


class Builder:
    """A graph of functional work on numbered streams."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.x = self.graph.placeholder("x")

    def work(self, stream: int | str, *args: Node) -> Node:
        return on_stream(self.graph, stream, (aten.cat.default, (list(args),), {}))

    def sync(self, source: int | str, to: int | str, event: str) -> None:
        on_stream(self.graph, source, (ops.event_record.default, (event,), {}))
        on_stream(self.graph, to, (ops.event_wait.default, (event,), {}))

    def plan(self, *outputs: Node) -> StreamPlan:
        self.graph.output(tuple(outputs))
        return StreamPlan.of(self.graph, sync="off")


def found(plan: StreamPlan) -> list[tuple[str, str, str]]:
    assert plan.races() == ()
    return [
        (finding.first.name, finding.second.name, finding.first_stream.tag) for finding in plan.lifetimes()
    ]


def lent(b: Builder) -> tuple[Node, Node]:
    """A block of the entry stream, in use on stream 1."""
    block = b.work(0, b.x)
    b.sync(0, 1, "made")
    return block, b.work(1, block)


def test_S21_a_block_lent_to_another_stream_is_unsafe_once_its_own_stream_allocates_again() -> None:
    b = Builder()
    _, used = lent(b)
    heir = b.work(0, b.x)
    plan = b.plan(used, heir)
    assert found(plan) == [(used.name, heir.name, "1")]
    finding = plan.lifetimes()[0]
    assert "npu_record_tagged_stream(cat_default, '1')" in finding.fix
    assert finding in plan.check()


def test_S21_record_stream_makes_it_safe_only_for_the_stream_it_names() -> None:
    for tag, safe in (("1", True), ("2", False)):
        b = Builder()
        block, used = lent(b)
        b.graph.call_function(ops.record_stream.default, (block, tag))
        plan = b.plan(used, b.work(0, b.x))
        assert (found(plan) == []) == safe


def keeps_for(tag: str) -> StreamPlan:
    """A block that stream 'side' uses is kept for the stream of a tag."""
    b = Builder()
    block = b.work(0, b.x)
    b.sync(0, "side", "made")
    used = b.work("side", block)
    b.sync("side", 0, "used")
    b.graph.call_function(ops.record_stream.default, (block, tag))
    return b.plan(used)


def test_memory_kept_for_a_tag_that_no_operator_has_is_a_finding_that_names_the_near_one() -> None:
    (finding,) = keeps_for("sdie").check()
    assert "for the stream 'sdie', on which no operator runs" in finding.what
    assert finding.fix == "name 'side'"
    with pytest.warns(StreamRaceWarning, match="unknown stream: "):
        StreamPlan.of(finding.first.graph)


@pytest.mark.parametrize("tag", ["side", "default"])
def test_memory_kept_for_a_stream_that_is_used_is_none(tag: str) -> None:
    assert keeps_for(tag).check() == ()


def test_memory_kept_for_a_stream_of_another_graph_is_none() -> None:
    assert [each.kind for each in keeps_for("of another graph").check()] == ["unknown stream"]
    b = Builder()
    b.plan(b.work("of another graph", b.x))
    assert keeps_for("of another graph").check() == ()


def test_waiting_for_the_user_before_allocating_again_makes_it_safe() -> None:
    b = Builder()
    _, used = lent(b)
    b.sync(1, 0, "used")
    assert found(b.plan(used, b.work(0, b.x))) == []


def test_a_block_that_lives_on_is_safe() -> None:
    b = Builder()
    block, used = lent(b)
    heir = b.work(0, b.x)
    assert found(b.plan(used, heir, block)) == []


def test_an_input_is_the_callers_and_safe() -> None:
    b = Builder()
    used = b.work(1, b.x)
    assert found(b.plan(used, b.work(0, b.x))) == []


def test_no_later_work_on_the_owner_means_nobody_can_take_the_block() -> None:
    b = Builder()
    _, used = lent(b)
    assert found(b.plan(used)) == []


def test_a_view_keeps_the_block_alive_and_a_use_through_a_view_is_a_use() -> None:
    b = Builder()
    block = b.work(0, b.x)
    view = b.graph.call_function(aten.view.default, (block, [-1]))
    b.sync(0, 1, "made")
    used = b.work(1, view)
    heir = b.work(0, b.x)
    assert found(b.plan(used, heir)) == [(used.name, heir.name, "1")]


def test_W14_record_stream_through_a_view_keeps_the_block() -> None:
    b = Builder()
    block = b.work(0, b.x)
    view = b.graph.call_function(aten.view.default, (block, [-1]))
    b.sync(0, 1, "made")
    used = b.work(1, view)
    b.graph.call_function(ops.record_stream.default, (view, "1"))
    assert found(b.plan(used, b.work(0, b.x))) == []


def test_each_stream_that_borrows_is_reported() -> None:
    b = Builder()
    block = b.work(0, b.x)
    b.sync(0, 1, "one")
    b.sync(0, 2, "two")
    users: Sequence[Node] = [b.work(1, block), b.work(2, block)]
    heir = b.work(0, b.x)
    assert [item[2] for item in found(b.plan(*users, heir))] == ["1", "2"]


def kept(plan: StreamPlan) -> list[tuple[str, str, str]]:
    return [
        (node.name, step.tensor.name, step.stream.tag)
        for node, steps in plan.blocks_to_keep.items()
        for step in steps
    ]


def test_S21_what_is_unsafe_is_kept_for_the_stream_that_uses_it() -> None:
    b = Builder()
    block, used = lent(b)
    assert kept(b.plan(used, b.work(0, b.x))) == [(used.name, block.name, "1")]


def test_S21_a_block_is_kept_as_well_where_another_stream_than_its_own_could_get_it() -> None:
    """Two streams of a program may be one of the device; the stream that uses the block may be that one, too."""
    b = Builder()
    block, used = lent(b)
    heir = b.work(2, b.x)
    plan = b.plan(used, heir, b.work(1, b.x))
    assert found(plan) == []
    assert kept(plan) == [(used.name, block.name, "1")]


def test_nothing_is_kept_that_is_ordered_or_that_the_program_keeps() -> None:
    b = Builder()
    block, used = lent(b)
    b.sync(1, 0, "used")
    b.sync(1, 2, "used")
    assert kept(b.plan(used, b.work(0, b.x), b.work(1, b.x), b.work(2, b.x))) == []
    b = Builder()
    block, used = lent(b)
    b.graph.call_function(ops.record_stream.default, (block, "1"))
    assert kept(b.plan(used, b.work(0, b.x), b.work(2, b.x))) == []
