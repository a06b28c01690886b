"""Native stream and event code of a Dynamo graph becomes the operators of this package."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.graph_bytecode_inputs import get_external_object_by_index, store_user_object_weakrefs

import air_streams as tng
from air_streams import Outside, StreamPlan, errors, normalize
from air_streams._library import STREAM_OPS
from air_streams._outside import CALLER
from streams_models import compiled

first, second = torch.Stream(device="cpu"), torch.Stream(device="cpu")
done, ready = torch.Event("cpu"), torch.Event("cpu")
tagged_done, tagged_ready = tng.ops.npu_create_tagged_event("done"), tng.ops.npu_create_tagged_event("ready")
switch = tng.scope.npu_stream_switch


def native_events(x: torch.Tensor, *, lent: bool = False) -> tuple[torch.Tensor, ...]:
    with first:
        y = x + 1
        done.record()
    with second:
        done.wait()
        z = y * 2
        if lent:
            y.record_stream(second)
    return (z,)


def tagged_events(x: torch.Tensor, *, lent: bool = False) -> tuple[torch.Tensor, ...]:
    with switch("a"):
        y = x + 1
        tng.ops.npu_tagged_event_record(tagged_done)
    with switch("b"):
        tng.ops.npu_tagged_event_wait(tagged_done)
        z = y * 2
        if lent:
            tng.ops.npu_record_tagged_stream(y, "b")
    return (z,)


def native_lifetime(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return native_events(x, lent=True)


def tagged_lifetime(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tagged_events(x, lent=True)


def native_explicit_streams(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with first:
        y = x + 1
    done.record(first)
    second.wait_event(done)
    with second:
        z = y * 2
    ready.record(second)
    ready.wait(first)
    with first:
        w = z + y
    return (w,)


def tagged_explicit_streams(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with switch("a"):
        y = x + 1
        tng.ops.npu_tagged_event_record(tagged_done)
    with switch("b"):
        tng.ops.npu_tagged_event_wait(tagged_done)
        z = y * 2
        tng.ops.npu_tagged_event_record(tagged_ready)
    with switch("a"):
        tng.ops.npu_tagged_event_wait(tagged_ready)
        w = z + y
    return (w,)


def native_wait_stream(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with first:
        y = x + 1
        with second:
            u = x * 3
        z = y * 2
    second.wait_stream(first)
    with second:
        w = z + u
    return (w,)


def tagged_wait_stream(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with switch("a"):
        y = x + 1
        with switch("b"):
            u = x * 3
        z = y * 2
        tng.ops.npu_tagged_event_record(tagged_done)
    with switch("b"):
        tng.ops.npu_tagged_event_wait(tagged_done)
        w = z + u
    return (w,)


def native_stream_made_inside(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    inner = torch.Stream(device="cpu")
    with inner:
        y = x + 1
    return (y,)


def tagged_stream_for_inside(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with switch("inner"):
        y = x + 1
    return (y,)


traces_record_stream = pytest.mark.skipif(
    torch.__version__ < "2.12", reason="torch 2.11 cannot trace Tensor.record_stream"
)
PAIRS = [
    (native_events, tagged_events),
    pytest.param(native_lifetime, tagged_lifetime, marks=traces_record_stream),
    (native_explicit_streams, tagged_explicit_streams),
    (native_wait_stream, tagged_wait_stream),
    (native_stream_made_inside, tagged_stream_for_inside),
]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("native", "tagged"), PAIRS)
def test_A42_native_and_tagged_forms_have_the_same_plan(
    native: Callable[..., Any], tagged: Callable[..., Any], dynamic: bool
) -> None:
    x = torch.arange(6.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tng.StreamRaceWarning)
        by_native, from_native = compiled(native, x, dynamic=dynamic)
        by_tag, from_tag = compiled(tagged, x, dynamic=dynamic)
    torch.testing.assert_close(by_native, by_tag)
    assert from_native.plans[0].describe() == from_tag.plans[0].describe()
    assert from_native.plans[0].is_multi_stream


@pytest.mark.parametrize("native", [native_events, pytest.param(native_lifetime, marks=traces_record_stream)])
def test_nothing_native_is_left_in_the_graph(native: Callable[..., Any]) -> None:
    _, backend = compiled(native, torch.ones(3))
    for gm in (*backend.dynamo, *backend.graphs):
        assert all("stream" not in (node.meta.get("custom") or {}) for node in gm.graph.nodes)
        assert not [n for n in gm.graph.nodes if "streams." in str(n.target).replace("air_streams.", "")]
        assert not [n for n in gm.graph.nodes if "external_object" in str(n.target)]


def test_every_stream_operator_has_its_own_site() -> None:
    _, backend = compiled(tagged_lifetime, torch.ones(3))
    sites = [node.args[-1] for node in backend.graphs[0].graph.nodes if node.target in STREAM_OPS]
    assert len(set(sites)) == len(sites) == 7


def test_an_input_changed_on_a_native_stream_is_changed_and_is_no_race() -> None:
    def change(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with first:
            x.add_(1)
        return ()

    x = torch.zeros(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tng.StreamRaceWarning)
        _, backend = compiled(change, x)
    torch.testing.assert_close(x, torch.ones(3))
    text = backend.plans[0].describe().splitlines()
    assert text.index("entry: wait event1") < next(n for n, line in enumerate(text) if "copy_" in line)


def test_native_scopes_nest_with_tagged_ones() -> None:
    def mixed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with first:
            a = x + 1
            with switch("inner"):
                b = x + 2
                with second:
                    c = x + 3
                d = x + 4
            e = x + 5
        with switch("outer"), first:
            f = x + 6
        return a, b, c, d, e, f

    _, backend = compiled(mixed, torch.ones(3))
    plan = backend.plans[0]
    streams = [plan.stream_of(node).tag for node in plan.nodes if str(node.target).startswith("aten.add")]
    one, two = streams[0], streams[2]
    assert one.startswith("native:cpu:")
    assert two.startswith("native:cpu:")
    assert one != two
    assert streams == [one, "inner", two, "inner", one, one]


@pytest.mark.parametrize("wait", [lambda: first.synchronize(), lambda: done.synchronize()])
def test_making_the_host_wait_is_refused_with_the_users_line(wait: Callable[[], None]) -> None:
    def synchronising(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        wait()
        return (x + 1,)

    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(synchronising, torch.ones(3))
    cause = caught.value.__cause__ or caught.value.inner_exception
    assert isinstance(cause, errors.NativeStreamError)
    assert "test_normalize.py" in str(cause)
    assert "wait_event" in str(cause)


def test_a_graph_that_was_not_normalised_is_refused() -> None:
    captured = []

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        captured.append(gm)
        return gm.forward

    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match="doesn't support"):
        torch.compile(native_explicit_streams, backend=backend, fullgraph=True)(torch.ones(2))
    graph = captured[0].graph
    for node in graph.nodes:
        if "record_event" in str(node.target):
            node.target = torch.ops.streams.record_event.default
    with pytest.raises(errors.NativeStreamError, match="normalize"):
        StreamPlan.of(captured[0])


def methods(name: str, *objects: torch.Stream | torch.Event) -> torch.fx.GraphModule:
    """A graph as torch 2.11 makes it, where the first of two numbered objects is asked to do something."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    store_user_object_weakrefs(*objects)
    nodes = [graph.call_function(get_external_object_by_index, (n,)) for n in range(len(objects))]
    graph.call_method(name, tuple(nodes))
    graph.output((x,))
    return torch.fx.GraphModule({}, graph)


@pytest.mark.parametrize(
    ("name", "objects", "expected"),
    [
        ("wait_event", (second, done), []),  # what was recorded before the call is meant
        ("record_event", (second, done), ["event_record native"]),
        ("record_event", (second,), ["event_record record_event"]),
        ("wait_stream", (second, first), ["event_record wait_stream", "event_wait wait_stream"]),
    ],
)
def test_calls_that_torch_2_11_writes_as_methods_are_read(
    name: str, objects: tuple[torch.Stream | torch.Event, ...], expected: list[str]
) -> None:
    gm = methods(name, *objects)
    assert normalize(gm).replaced == {f"streams.{name}": 1}
    calls = [node for node in gm.graph.nodes if node.target in STREAM_OPS]
    told = [f"{node.target._opname} {str(node.args[0]).partition(':')[0]}" for node in calls]
    assert told == [w for call in expected for w in ("stream_enter native", call, "stream_exit native")]


def test_making_the_host_wait_is_refused_as_torch_2_11_writes_it() -> None:
    with pytest.raises(errors.NativeStreamError, match="host wait"):
        normalize(methods("synchronize", second))


def test_a_graph_without_native_code_is_only_numbered() -> None:
    gm = torch.fx.symbolic_trace(lambda x: x + 1)
    report = normalize(gm)
    assert not report.modified
    assert [node.op for node in gm.graph.nodes] == ["placeholder", "call_function", "output"]


def outside(*calls: tuple[str, tuple[int, ...]], objects: tuple[torch.Stream | torch.Event, ...]) -> Outside:
    """What `normalize` says of a graph that calls operators of torch's `streams` on numbered objects."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    store_user_object_weakrefs(*objects)
    for name, numbers in calls:
        graph.call_function(getattr(torch.ops.streams, name).default, numbers)
    graph.output((x,))
    return normalize(torch.fx.GraphModule({}, graph)).outside


def test_A42_what_is_waited_for_and_recorded_beside_the_graph_is_told_by_number() -> None:
    """0, 1: streams; 2, 3: events. Event 2 is recorded before the call, and event 3 in the graph before its wait."""
    told = outside(
        ("wait_event", (2, 0)),
        ("record_event", (3, 0)),
        ("wait_event", (3, 1)),
        objects=(first, second, done, torch.Event("cpu")),
    )
    waits = ((0, CALLER), (1, CALLER), (1, 0))
    assert told == Outside(streams=(0, 1), awaited=(2,), recorded=(3,), waits=waits)


def test_A42_an_event_that_the_graph_records_later_is_waited_for_as_the_last_call_recorded_it() -> None:
    told = outside(("wait_event", (1, 0)), ("record_event", (1, 0)), objects=(first, done))
    assert told == Outside(streams=(0,), awaited=(1,), recorded=(1,), waits=((0, CALLER),))


def test_A42_streams_that_wait_for_each_other_are_shared_with_the_code_outside() -> None:
    told = outside(("wait_stream", (0, 1)), objects=(first, second))
    assert told == Outside(streams=(0, 1), waits=((0, 1),))
    assert not outside(objects=(first, second))


@pytest.mark.parametrize("value", ["left", 1_000, 2.5])
def test_an_annotation_of_the_programs_own_by_the_name_of_stream_stays_one(value: object) -> None:
    def annotated(x: torch.Tensor) -> torch.Tensor:
        with torch.fx.traceback.annotate({"stream": value}):
            y = x + 1
        return y * 2

    x = torch.randn(4)
    result, backend = compiled(annotated, x)
    torch.testing.assert_close(result, annotated(x))
    assert not normalize(backend.dynamo[0]).modified
    annotations = [n.meta["custom"] for n in backend.dynamo[0].graph.nodes if "custom" in n.meta]
    assert {annotation["stream"] for annotation in annotations} == {value}
