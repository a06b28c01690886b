from __future__ import annotations

import ctypes
import threading
import time

import pytest
import torch

import air_sim

npu = pytest.importorskip("torch_npu").npu

pytestmark = pytest.mark.npu


def test_streams_run_at_the_same_time_and_events_order_them(device: str) -> None:
    air_sim.change(delay_us=2000, seed=3)
    x = torch.ones(64, device=device)
    npu.synchronize()
    for _ in range(20):
        side = npu.Stream()
        side.wait_stream(npu.current_stream())
        with npu.stream(side):
            y = x * 3
            done = npu.Event()
            done.record()
        npu.current_stream().wait_event(done)
        z = y + 1
        y.record_stream(npu.current_stream())
        assert z.cpu().eq(4).all()


def test_a_missing_wait_is_shaken_out_by_random_delays(device: str) -> None:
    """The purpose of delay_us: without the event the reader often comes first."""
    air_sim.change(delay_us=3000, seed=11)
    seen = set()
    for _ in range(30):
        x = torch.zeros(8, device=device)
        npu.synchronize()
        side = npu.Stream()
        with npu.stream(side):
            x.fill_(1)
        y = x + 0
        npu.synchronize()
        seen.add(float(y[0].cpu()))
    assert seen == {0.0, 1.0}


def test_a_query_does_not_wait(device: str) -> None:
    air_sim.change(delay_us=50_000, seed=1)
    x = torch.ones(4, device=device)
    event = npu.Event()
    for _ in range(10):
        x.add_(1)
    event.record()
    pending = not event.query()
    event.synchronize()
    assert pending
    assert event.query()


def test_timed_events_measure_the_host_clock(device: str) -> None:
    start, end = npu.Event(enable_timing=True), npu.Event(enable_timing=True)
    start.record()
    time.sleep(0.05)
    end.record()
    end.synchronize()
    assert 40 < start.elapsed_time(end) < 1000


def test_the_stream_limit_is_an_error_with_the_drivers_code(device: str) -> None:
    runtime = ctypes.CDLL(str(air_sim.active().folder / "libascendcl.so"))  # type: ignore[union-attr]  # --sim
    air_sim.change(streams=0)
    handle = ctypes.c_void_p()
    assert runtime.aclrtCreateStream(ctypes.byref(handle)) == 207008
    runtime.aclGetRecentErrMsg.restype = ctypes.c_char_p
    assert b"no stream left" in runtime.aclGetRecentErrMsg()
    air_sim.change(streams=1984)
    assert runtime.aclrtCreateStream(ctypes.byref(handle)) == 0
    assert runtime.aclrtDestroyStream(handle) == 0


def test_the_event_limit_is_a_python_error_and_passes(device: str) -> None:
    air_sim.change(events=0)
    with pytest.raises(RuntimeError, match="207007"):
        npu.Event().record()
    air_sim.change(events=65535)
    event = npu.Event()
    event.record()
    event.synchronize()


def test_threads_have_devices_and_streams_of_their_own(device: str) -> None:
    results = []

    def work(seed: int) -> None:
        npu.set_device(0)
        generator = torch.Generator().manual_seed(seed)
        with npu.stream(npu.Stream()):
            for _ in range(20):
                x = torch.randn(16, 16, generator=generator)
                results.append(torch.allclose((x.to("npu") @ x.to("npu")).cpu(), x @ x, atol=1e-3))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 80


def test_launch_delay_us_holds_up_what_the_task_queue_hands_over(device: str) -> None:
    x = torch.zeros(4, device=device)
    for _ in range(16):  # the queue's thread is known after some launches
        x.add_(1)
    npu.synchronize()
    air_sim.change(launch_delay_us=200_000)
    before = time.monotonic()
    x.add_(1)
    npu.synchronize()
    assert time.monotonic() - before >= 0.2
    assert x.tolist() == [17.0] * 4
