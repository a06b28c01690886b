"""torch_npu's task queue lags behind the host, as under load: what the driver is asked then is out of date."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from air_aclgraph import AcceleratorRuntime, Request

air_sim = pytest.importorskip("air_sim")
pytestmark = pytest.mark.npu("air-sim holds the queue up")


@pytest.fixture(autouse=True)
def _slow_queue() -> Iterator[None]:
    if air_sim.active() is None:
        pytest.skip("air-sim holds the queue up")
    x = torch.zeros(1, device="npu")
    for _ in range(16):  # air-sim knows the queue's thread after some launches
        x.add_(1)
    torch.get_device_module("npu").synchronize()
    air_sim.change(launch_delay_us=20_000)
    yield
    air_sim.change(launch_delay_us=0)


def forked(runtime: AcceleratorRuntime, x: Tensor) -> Tensor:
    """Two streams join one after the other; what the first one frees was used on the stream they come from."""

    def recorded() -> Any:
        event = runtime.new_event()
        runtime.record_event(event)
        return event

    y = x + 1
    begun = recorded()
    runtime.enter_stream(runtime.stream("queue 1", 0))
    runtime.wait_event(begun)
    freed = y * 2
    runtime.use_on_stream(freed, None)
    total = freed.sum()
    del freed
    done = recorded()
    runtime.exit_stream()
    runtime.wait_event(done)
    z = y + total
    begun = recorded()
    runtime.enter_stream(runtime.stream("queue 2", 0))
    runtime.wait_event(begun)
    result = z * y
    done = recorded()
    runtime.exit_stream()
    runtime.wait_event(done)
    return result


def test_memory_that_two_streams_use_may_be_freed_before_the_queue_has_told_the_driver_of_the_wait() -> None:
    """The allocator asked whether the stream is captured, heard no, and queried an event of the capture."""
    runtime = AcceleratorRuntime("npu:0")
    x = torch.arange(8.0, device="npu")
    recording = runtime.record(lambda x: (forked(runtime, x),), (x,), Request())
    x.fill_(2.0)
    recording.replay()
    runtime.synchronize()
    (result,) = recording.outputs
    assert result.tolist() == [(3.0 + 8 * 6.0) * 3.0] * 8
    recording.release()
