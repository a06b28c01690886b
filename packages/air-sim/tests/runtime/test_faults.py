"""Every fault is a Python exception with the driver's code; then the process works on, or says that it does not."""

from __future__ import annotations

import pytest
import torch

import air_sim

npu = pytest.importorskip("torch_npu").npu

pytestmark = pytest.mark.npu


def test_a_failed_kernel_aborts_its_stream_until_the_device_is_recovered(device: str) -> None:
    x, side = torch.ones(4, device=device), npu.Stream()
    npu.synchronize()
    air_sim.change(fault="kernel_error@1")
    with npu.stream(side):
        x + 1
    with pytest.raises(RuntimeError, match=r"(?s)507015.*nothing more runs on it"):
        side.synchronize()
    with pytest.raises(RuntimeError, match="507015"):
        side.synchronize()
    assert (x + 1).cpu().eq(2).all(), "other streams go on"
    air_sim.recover()
    with npu.stream(side):
        y = x + 1
    side.synchronize()
    assert y.cpu().eq(2).all()


def test_a_failed_kernel_is_reported_once_when_errors_are_not_sticky(device: str) -> None:
    air_sim.change(sticky=False)
    x, side = torch.ones(4, device=device), npu.Stream()
    npu.synchronize()
    air_sim.change(fault="kernel_error@1")
    with npu.stream(side):
        x + 1
    with pytest.raises(RuntimeError, match="507015"):
        side.synchronize()
    with npu.stream(side):
        y = x + 2
    side.synchronize()
    assert y.cpu().eq(3).all()


def test_the_nth_kernel_fails_and_no_other(device: str) -> None:
    x, side = torch.zeros(4, device=device), npu.Stream()
    npu.synchronize()
    air_sim.change(fault="kernel_error@3")
    with npu.stream(side):
        for _ in range(5):
            x.add_(1)
    with pytest.raises(RuntimeError, match="507015"):
        side.synchronize()
    air_sim.recover()
    assert x.cpu().eq(2).all()


def test_a_kernel_that_hangs_is_given_up_with_507014(device: str) -> None:
    x, side = torch.ones(4, device=device), npu.Stream()
    npu.synchronize()
    air_sim.change(fault="hang@1", kernel_timeout_ms=300)
    with npu.stream(side):
        x + 1
    with pytest.raises(RuntimeError, match="507014"):
        side.synchronize()
    air_sim.change(kernel_timeout_ms=0)
    air_sim.recover()
    assert (x + 1).cpu().eq(2).all()


def test_a_kernel_that_fails_inside_a_replay_stops_the_replay(device: str) -> None:
    x, graph, stream = torch.zeros(4, device=device), npu.NPUGraph(), npu.Stream()
    npu.synchronize()
    with npu.graph(graph, stream=stream):
        x.add_(1)
        x.add_(1)
        x.add_(1)
    air_sim.change(fault="kernel_error@2")
    with npu.stream(stream):
        graph.replay()
    with pytest.raises(RuntimeError, match="507015"):
        stream.synchronize()
    air_sim.recover()
    assert x.cpu().eq(1).all()
    with npu.stream(stream):
        graph.replay()
    stream.synchronize()
    assert x.cpu().eq(4).all()


def test_a_stream_that_waits_for_a_failed_one_does_not_hang_and_fails_with_its_error(device: str) -> None:
    x, side, third, event = torch.ones(4, device=device), npu.Stream(), npu.Stream(), npu.Event()
    npu.synchronize()
    air_sim.change(fault="kernel_error@1")
    with npu.stream(side):
        y = x + 1
        event.record()
    npu.current_stream().wait_event(event)
    with pytest.raises(RuntimeError, match="507015"):
        (y + 1).cpu()  # would be computed from what the failed kernel did not write
    with pytest.raises(RuntimeError, match="507015"):
        event.synchronize()
    with npu.stream(third):
        assert (x + 1).cpu().eq(2).all(), "a stream that did not wait goes on"
    with pytest.raises(RuntimeError, match=r"(?s)507015.*fault kernel_error was injected"):
        side.synchronize()
    air_sim.recover()
    assert (x + 1).cpu().eq(2).all()


def test_the_code_of_a_failed_call_is_its_own_also_after_an_asynchronous_error(device: str) -> None:
    x, side = torch.ones(4, device=device), npu.Stream()
    npu.synchronize()
    air_sim.change(fault="kernel_error@1")
    with npu.stream(side):
        x + 1
    with pytest.raises(RuntimeError, match="507015"):
        side.synchronize()
    air_sim.recover()
    with pytest.raises(RuntimeError, match="error code is 107027"), npu.graph(npu.NPUGraph()):
        (x * 2).sum().item()


def test_an_event_of_a_failed_stream_fails_nobody_after_the_device_is_recovered(device: str) -> None:
    x, side, event = torch.ones(4, device=device), npu.Stream(), npu.Event()
    npu.synchronize()
    air_sim.change(fault="kernel_error@1")
    with npu.stream(side):
        x + 1
        event.record()
    with pytest.raises(RuntimeError, match="507015"):
        side.synchronize()
    air_sim.recover()
    npu.current_stream().wait_event(event)
    assert (x + 1).cpu().eq(2).all()


REFUSABLE = (
    "aclnnReluGetWorkspaceSize",
    "aclrtSynchronizeDeviceWithTimeout",
    "aclmdlRICaptureBegin",
    "aclmdlRIExecuteAsync",
)


@pytest.mark.parametrize("function", REFUSABLE)
def test_a_call_of_any_function_can_be_refused_and_the_next_one_works(device: str, function: str) -> None:
    x = torch.tensor([-1.0, 1.0], device=device)

    def step() -> list[float]:
        y = x.relu()
        npu.synchronize()
        with npu.graph(graph := npu.NPUGraph()):
            z = y + 1
        graph.replay()
        return z.tolist()  # type: ignore[no-any-return]  # torch has no type for it

    assert step() == [1.0, 2.0]
    air_sim.change(fault=f"{function}@1")
    with pytest.raises(RuntimeError, match=f"(?s)507899.*{function}: a fault was injected"):
        step()
    assert step() == [1.0, 2.0]


def test_the_call_that_is_refused_is_counted_from_the_change(device: str) -> None:
    x = torch.ones(2, device=device)
    x.relu()
    air_sim.change(fault="aclnnReluGetWorkspaceSize@2, oom@100000")
    x.relu()
    with pytest.raises(RuntimeError, match="aclnnReluGetWorkspaceSize: a fault"):
        x.relu()
    x.relu()
    air_sim.change(fault="")
