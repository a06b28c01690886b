from __future__ import annotations

import ctypes
import json
import threading
from pathlib import Path

import pytest
import torch

import air_sim

npu = pytest.importorskip("torch_npu").npu

pytestmark = pytest.mark.npu


def test_a_capture_runs_nothing_and_a_replay_everything(device: str) -> None:
    x = torch.zeros(4, 8, device=device)
    weight = torch.randn(8, 8)
    w = weight.to(device)
    npu.synchronize()
    graph = npu.NPUGraph()
    with npu.graph(graph):
        y = torch.relu(x @ w) + 1
    for _ in range(3):
        value = torch.randn(4, 8)
        x.copy_(value)
        graph.replay()
        torch.testing.assert_close(y.cpu(), torch.relu(value @ weight) + 1)


@pytest.mark.parametrize("threads", [1, 3])
def test_branches_of_a_replay_join(device: str, threads: int) -> None:
    air_sim.change(replay_threads=threads, delay_us=500, seed=5)
    x = torch.zeros(16, device=device)
    npu.synchronize()
    graph, sides = npu.NPUGraph(), [npu.Stream() for _ in range(3)]
    with npu.graph(graph):
        current, parts = npu.current_stream(), []
        base = x * 2
        for number, side in enumerate(sides):
            side.wait_stream(current)
            with npu.stream(side):
                parts.append((base + number) * 3)
        for side in sides:
            current.wait_stream(side)
        total = parts[0] + parts[1] + parts[2]
    for value in (1.0, -2.0, 5.0):
        x.fill_(value)
        graph.replay()
        assert total.cpu().eq(18 * value + 9).all()


def test_a_fork_that_is_not_joined_is_error_107025(device: str) -> None:
    x, side, graph = torch.ones(4, device=device), npu.Stream(), npu.NPUGraph()
    npu.synchronize()

    def capture() -> None:
        with npu.graph(graph):
            y = x * 2
            side.wait_stream(npu.current_stream())
            with npu.stream(side):
                y + 1

    with pytest.raises(RuntimeError, match="107025"):
        capture()
    npu.synchronize()
    assert (x + 1).cpu().eq(2).all()


def test_a_synchronous_copy_in_a_capture_is_error_107030(device: str) -> None:
    x, graph = torch.ones(4, device=device), npu.NPUGraph()
    npu.synchronize()

    def capture() -> None:
        with npu.graph(graph):
            (x * 2).cpu()

    with pytest.raises(RuntimeError, match="107030"):
        capture()
    npu.synchronize()
    assert (x + 1).cpu().eq(2).all()


def test_synchronising_a_captured_stream_is_error_107027(device: str) -> None:
    x, graph = torch.ones(4, device=device), npu.NPUGraph()
    npu.synchronize()

    def capture() -> None:
        with npu.graph(graph):
            x * 2
            npu.current_stream().synchronize()

    with pytest.raises(RuntimeError, match="107027"):
        capture()


@pytest.mark.parametrize(("mode", "refused"), [("global", True), ("thread_local", False), ("relaxed", False)])
def test_the_mode_of_a_capture_says_what_other_threads_may_do(device: str, mode: str, refused: bool) -> None:
    x, graph, codes = torch.ones(4, device=device), npu.NPUGraph(), []
    runtime = ctypes.CDLL(str(air_sim.active().folder / "libascendcl.so"))  # type: ignore[union-attr]  # --sim
    npu.synchronize()

    def synchronous_copy() -> None:
        runtime.aclrtSetDevice(0)
        source, target = ctypes.create_string_buffer(8), ctypes.create_string_buffer(8)
        size = ctypes.c_size_t(8)
        codes.append(runtime.aclrtMemcpy(target, size, source, size, 0))

    with npu.graph(graph, capture_error_mode=mode):
        y = x * 2
        other = threading.Thread(target=synchronous_copy)
        other.start()
        other.join()
    graph.replay()
    assert codes == [107030 if refused else 0]
    assert y.cpu().eq(2).all()


def test_graphs_use_up_streams_until_they_are_destroyed(device: str) -> None:
    """Resource exhaustion while capturing: what users of large models meet first."""
    used = 0
    x, graphs = torch.ones(4, device=device), []
    npu.synchronize()
    runtime = ctypes.CDLL(str(air_sim.active().folder / "libascendcl.so"))  # type: ignore[union-attr]  # --sim

    def exhausted(limit: int) -> bool:
        air_sim.change(streams=limit)
        handle = ctypes.c_void_p()
        status = runtime.aclrtCreateStream(ctypes.byref(handle))
        if status == 0:
            runtime.aclrtDestroyStream(handle)
        return bool(status)

    used = next(limit for limit in range(2000) if not exhausted(limit)) - 1
    capture_stream = npu.Stream()
    air_sim.change(streams=used + 3)

    def capture() -> None:
        graph = npu.NPUGraph()
        with npu.graph(graph, stream=capture_stream):
            x + 1
        graphs.append(graph)

    def capture_until_exhausted() -> None:
        for _ in range(8):
            capture()

    with pytest.raises(RuntimeError, match="207005"):
        capture_until_exhausted()
    assert graphs, "the first graphs fit"
    air_sim.change(streams=1984)
    air_sim.recover()
    graphs.clear()
    capture()
    graphs[0].replay()
    npu.synchronize()


def test_random_numbers_differ_between_replays(device: str) -> None:
    graph = npu.NPUGraph()
    with npu.graph(graph):
        x = torch.rand(8, device=device)
    graph.replay()
    first = x.cpu()
    graph.replay()
    assert not torch.equal(first, x.cpu())


def test_the_accelerator_graph_of_torch_works(device: str) -> None:
    x, stream, graph = torch.zeros(4, device=device), npu.Stream(), torch.accelerator.Graph()
    npu.synchronize()
    with npu.stream(stream):
        graph.capture_begin()
        y = x * 10
        graph.capture_end()
    x.fill_(2)
    npu.synchronize()
    graph.replay()
    npu.synchronize()
    assert y.cpu().eq(20).all()


def test_the_debug_dump_is_a_trace_with_the_edges_of_the_graph(device: str, tmp_path: Path) -> None:
    x, graph = torch.ones(4, device=device), npu.NPUGraph()
    npu.synchronize()
    with npu.graph(graph):
        (x * 2 + 1).relu()
    file = tmp_path / "graph.json"
    graph.debug_dump(str(file))
    trace = json.loads(file.read_text())
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    nodes = [event for event in events if event.get("ph") == "X"]
    assert len(nodes) == 3
    assert nodes[2]["args"]["deps"] == [1]


def test_a_task_group_is_updated_in_the_order_of_streams_and_events(device: str) -> None:
    x, update = torch.ones(4, device=device), npu.Stream()
    released = npu.ExternalEvent()
    npu.synchronize()
    graph = npu.NPUGraph()
    with npu.graph(graph):
        stream = npu.current_stream()
        released.wait(stream)
        released.reset(stream)
        npu.graph_task_group_begin(stream)
        y = x * 2
        handle = npu.graph_task_group_end(stream)
        z = y + 1
    for factor in (2, 5, 7):
        graph.replay()  # waits on the device for the update that follows
        with npu.stream(update):
            npu.graph_task_update_begin(update, handle)
            torch.mul(x, factor, out=y)
            npu.graph_task_update_end(update)
            released.record(update)
        npu.synchronize()
        assert z.cpu().eq(factor + 1).all()


def test_an_update_with_another_number_of_tasks_is_refused(device: str) -> None:
    x, update = torch.ones(4, device=device), npu.Stream()
    npu.synchronize()
    graph = npu.NPUGraph()
    with npu.graph(graph):
        stream = npu.current_stream()
        npu.graph_task_group_begin(stream)
        x * 2
        handle = npu.graph_task_group_end(stream)

    def too_few() -> None:
        with npu.stream(update):
            npu.graph_task_update_begin(update, handle)
            npu.graph_task_update_end(update)

    with pytest.raises(RuntimeError, match="107040"):
        too_few()
