"""Events, markers and lifetimes: the calls, their errors, and how they come through the compiler."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import pytest
import torch
from torch._dynamo.exc import Unsupported as DynamoUnsupported
from torch._dynamo.exc import UserError

from air_streams import STREAM_OPS, Record, Wait, errors, ops, scope
from streams_models import compiled

event = ops.npu_create_tagged_event("shared")


def everything(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Every operator once, an in-place change and an unused value among them."""
    y = x + 1
    y.mul_(2)
    marker = ops.record()
    ops.npu_tagged_event_record(event)
    with scope.npu_stream_switch("1"):
        ops.npu_tagged_event_wait(event)
        unused = y - 1  # noqa: F841 -- dead-code elimination may remove it, but nothing around it
        z = torch.mm(y, w)
        ops.npu_record_tagged_stream(y, "1")
    with scope.npu_stream_switch("2"):
        ops.wait([marker, z])
        u = z + y
    return y, u


ORDER = [
    "record",
    "event_record",
    "stream_enter",
    "event_wait",
    "record_stream",
    "stream_exit",
    "stream_enter",
    "wait",
    "stream_exit",
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_S20_the_operators_keep_their_order_through_dynamo_functionalization_dce_and_aot(
    dynamic: bool, training: bool
) -> None:
    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=training)
    result, backend = compiled(everything, x, w, dynamic=dynamic, sync="off")
    for got, expected in zip(result, everything(x, w), strict=True):
        torch.testing.assert_close(got, expected)
    forward = backend.graphs[0].graph
    forward.eliminate_dead_code()
    found = [n.target.name().split("::")[1] for n in forward.nodes if n.target in STREAM_OPS]
    assert found == ORDER
    names = [node.name for node in forward.nodes]
    assert names.index("event_wait") < names.index("mm") < names.index("record_stream")
    kept = next(n for n in forward.nodes if n.name == "record_stream").args[0]
    assert isinstance(kept, torch.fx.Node)
    assert kept.target is torch.ops.aten.mul.Tensor, "the value after the in-place change, not before"
    if training:
        result[1].sum().backward()


def test_W11_markers_and_tensors_given_to_wait_really_become_events() -> None:
    _, backend = compiled(everything, torch.ones(4, 4), torch.ones(4, 4), sync="off")
    plan = backend.plans[0]
    steps = [step for node in plan.nodes for step in (*plan.actions(node).before, *plan.actions(node).after)]
    waits = [step for step in steps if isinstance(step, Wait) and step.stream.tag == "2"]
    assert [wait.event.origin for wait in waits] == ["user", "value"]
    recorded = {step.event for step in steps if isinstance(step, Record)}
    assert {wait.event for wait in waits} <= recorded
    assert plan.check() == ()


def test_W13_the_operators_live_in_a_namespace_of_their_own() -> None:
    assert {op.namespace for op in STREAM_OPS} == {"air_streams"}
    with pytest.raises(AttributeError):
        _ = torch.ops.air.tagged_event_record
    with pytest.raises(AttributeError):
        _ = torch.ops.npugraph_ex.tagged_event_record


def test_an_event_is_created_outside_the_compiled_function() -> None:
    def inside(x: torch.Tensor) -> torch.Tensor:
        ops.npu_tagged_event_record(ops.npu_create_tagged_event("inside"))
        return x + 1

    with pytest.raises(
        (errors.Unsupported, DynamoUnsupported, UserError), match=r"Unsupported|inside a compiled"
    ):
        compiled(inside, torch.ones(1))


def test_a_tag_is_free_again_when_its_event_is_gone() -> None:
    first = ops.npu_create_tagged_event("life")
    second = ops.npu_create_tagged_event("life")
    assert (first.key, second.key) == ("life", "life#2")
    del first
    gc.collect()
    assert ops.npu_create_tagged_event("life").key == "life"
    assert "life#2" in repr(second)


def test_events_have_methods_too() -> None:
    def methods(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        event.record()
        with scope.npu_stream_switch("1"):
            event.wait()
            return y * 2

    def functions(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        ops.npu_tagged_event_record(event)
        with scope.npu_stream_switch("1"):
            ops.npu_tagged_event_wait(event)
            return y * 2

    x = torch.ones(2)
    assert compiled(methods, x)[1].plans[0].describe() == compiled(functions, x)[1].plans[0].describe()


@pytest.mark.parametrize("call", [ops.npu_tagged_event_record, ops.npu_tagged_event_wait])
def test_only_tagged_events_can_be_recorded_and_waited_for(call: Any) -> None:
    with pytest.raises(errors.UnknownEvent, match="not a tagged event"):
        call("66")


@pytest.mark.parametrize("given", [[], (), torch.ones(1), None, [1], ["x"]])
def test_wait_needs_tensors(given: Any) -> None:
    with pytest.raises(errors.InvalidArgument):
        ops.wait(given)


def test_a_tensor_given_to_wait_without_a_list_is_described_and_not_printed() -> None:
    with pytest.raises(errors.InvalidArgument, match=r"got one tensor of shape \(40, 50\)\n") as told:
        ops.wait(torch.ones(40, 50))  # type: ignore[arg-type]  # the mistake under test
    assert "wait([tensor])" in told.value.advice


def test_record_stream_needs_a_tensor_and_a_tag() -> None:
    with pytest.raises(errors.InvalidArgument, match="tensor"):
        ops.npu_record_tagged_stream(3, "1")  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(errors.InvalidArgument, match="tagged_stream"):
        ops.npu_record_tagged_stream(torch.ones(1), "")


def test_a_marker_may_leave_its_graph_and_be_waited_for_outside() -> None:
    def leaks(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        marker = ops.record()
        ops.wait([marker])
        return x + 1, marker

    (result, marker), _ = compiled(leaks, torch.ones(1))
    assert (result.item(), marker.numel()) == (2, 0)
    ops.wait([marker])


def test_each_deep_copy_of_a_model_has_events_of_its_own() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ready = ops.npu_create_tagged_event("of a layer")
            self.same = self.ready

    layer = Layer()
    first, second = copy.deepcopy(layer), copy.deepcopy(layer)
    assert len({layer.ready.key, first.ready.key, second.ready.key}) == 3
    assert first.ready is first.same
    assert first.ready.tag == "of a layer"


def test_the_key_of_an_event_that_came_by_pickle_is_not_given_again() -> None:
    event = ops.npu_create_tagged_event("pickled")
    written = pickle.dumps(event)
    del event
    came = pickle.loads(written)
    assert came.key == "pickled"
    assert ops.npu_create_tagged_event("pickled").key == "pickled#2"


def under_vmap(x: torch.Tensor) -> torch.Tensor:
    def row(a: torch.Tensor) -> torch.Tensor:
        y = a * 2
        marker = ops.record()
        with scope.npu_stream_switch("1"):
            ops.wait([marker, y])
            z = y + 1
            ops.npu_record_tagged_stream(y, "1")
        return scope.npu_wait_tensor(a, z) + z

    rows: torch.Tensor = torch.vmap(row)(x)
    return rows


def test_tensors_inside_vmap_are_waited_for_and_recorded() -> None:
    x = torch.randn(3, 4)
    torch.testing.assert_close(under_vmap(x), 3 * x + 1)
    result, backend = compiled(under_vmap, x)
    torch.testing.assert_close(result, 3 * x + 1)
    assert backend.plans[0].check() == ()
