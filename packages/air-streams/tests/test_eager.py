"""Scopes, events and limits outside of compiled code: the order of the program, whatever the streams do."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest
import torch

from air_graph.testing import devices
from air_streams import adopt_stream, errors, ops, scope, stream_for

device_module: Any = torch.get_device_module(devices.accelerator() or "cpu")
CORES = pytest.mark.npu("only CANN limits the cores of a stream")
ROUNDS = 20
made, used = ops.npu_create_tagged_event("made"), ops.npu_create_tagged_event("used")


@pytest.fixture(autouse=True)
def _the_cpu_alone(request: pytest.FixtureRequest) -> None:
    """What the CPU does is asked where there is no accelerator, whose streams would be the ones meant."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    if parameters.get("device") == "cpu" and torch.accelerator.is_available():
        pytest.skip("the cpu alone")


@pytest.fixture
def racing() -> Iterator[None]:
    """On air-sim every task is late by a random time, so that what nothing orders runs in the wrong order."""
    if os.environ.get("AIR_SIM_ACTIVE") is None:
        yield
        return
    import air_sim

    air_sim.change(seed=5, delay_us=2000)
    yield
    device_module.synchronize()
    air_sim.change(seed=0, delay_us=0)


def after_a_block(x: torch.Tensor) -> torch.Tensor:
    with scope.npu_stream_switch("1"):
        y = x * 2
    return y + 1


def inside_a_block(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    with scope.npu_stream_switch("1"):
        return y + 1


def between_blocks(x: torch.Tensor) -> torch.Tensor:
    with scope.npu_stream_switch("1"):
        y = x * 2
        with scope.npu_stream_switch("2", 0, False):
            z = y + 1
            with scope.npu_stream_switch("default"):
                z = z * 1
        y.zero_()
    with scope.npu_stream_switch("3"):
        return z + y


def written_in_a_block(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    with scope.npu_stream_switch("1"):
        y.copy_(x)
        y.mul_(2)
    y.add_(1)
    return y


def memory_freed_in_a_block(x: torch.Tensor) -> torch.Tensor:
    """The block of `lent` is free while "1" may still read it: nothing may be written over it."""
    with scope.npu_stream_switch("1"):
        lent = x * 2
        y = lent + 1
    del lent
    with scope.npu_stream_switch("2"):
        over = torch.full_like(x, -1.0)
        over.mul_(3)
    return y


def an_error_in_a_block(x: torch.Tensor) -> torch.Tensor:
    try:
        with scope.npu_stream_switch("1"):
            y = x * 2
            raise KeyError
    except KeyError:
        return y + 1


def pieces(x: torch.Tensor, tag: str) -> Generator[torch.Tensor, None, None]:
    with scope.npu_stream_switch(tag):
        y = x * 2
        yield y
        yield y + 1


def generators_that_stop_in_their_blocks(x: torch.Tensor) -> torch.Tensor:
    first, second = pieces(x, "first"), pieces(x, "second")
    doubled = next(first)
    with scope.npu_stream_switch("1"):
        next(second)
        y = next(first)
        first.close()
    second.close()
    return y * 0 + doubled + 1


def with_events(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    ops.npu_tagged_event_record(made)
    with scope.npu_stream_switch("1"):
        ops.npu_tagged_event_wait(made)
        z = y + 1
        ops.npu_record_tagged_stream(y, "1")
        ops.npu_tagged_event_record(used)
        marker = ops.record()
    ops.npu_tagged_event_wait(used)
    ops.wait([marker, z])
    return scope.npu_wait_tensor(z, y)


FORMS = [
    after_a_block,
    inside_a_block,
    between_blocks,
    written_in_a_block,
    memory_freed_in_a_block,
    an_error_in_a_block,
    generators_that_stop_in_their_blocks,
    with_events,
]


@pytest.mark.usefixtures("racing")
@pytest.mark.parametrize("form", FORMS)
def test_S19_eager_code_keeps_the_order_of_the_program(form: Any, device: str) -> None:
    results = []
    for number in range(ROUNDS):
        x = torch.full((1 << 12,), float(number)).to(device)
        results.append(form(x).cpu())
    for number, result in enumerate(results):
        torch.testing.assert_close(result, torch.full((1 << 12,), 2.0 * number + 1))


@pytest.mark.usefixtures("racing")
def test_threads_in_blocks_of_one_tag_do_not_disturb_each_other(device: str) -> None:
    results: dict[int, torch.Tensor] = {}

    def work(number: int) -> None:
        x = torch.full((1 << 12,), float(number)).to(device)
        for _ in range(5):
            y = memory_freed_in_a_block(between_blocks(x) * 0 + x)
        results[number] = y.cpu()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        torch.testing.assert_close(results[number], torch.full((1 << 12,), 2.0 * number + 1))


def test_a_block_leaves_the_stream_as_it_is_and_asks_no_priority_of_the_device(device: str) -> None:
    before = torch.accelerator.current_stream() if device != "cpu" else None
    with scope.npu_stream_switch("asked", -1):
        assert (torch.accelerator.current_stream() if device != "cpu" else None) == before


@pytest.mark.usefixtures("racing")
def test_events_order_native_streams_too(accelerator: str) -> None:
    """What eager code has of real streams is torch's own: there tagged events and markers have to act."""
    side = device_module.Stream()
    adopt_stream("the side stream", side)
    for number in range(ROUNDS):
        x = torch.full((1 << 12,), float(number)).to(accelerator)
        y = x * 2
        ops.npu_tagged_event_record(made)
        with device_module.stream(side):
            ops.npu_tagged_event_wait(made)
            z = y + 1
            ops.npu_record_tagged_stream(y, "the side stream")
            marker = ops.record()
        del y
        over = torch.full_like(x, -1.0)
        ops.wait([marker])
        assert float((z * 1)[0].cpu()) == 2.0 * number + 1
        with device_module.stream(side):
            w = over * 0 + x
        scope.npu_wait_tensor(x, w)
        assert float((w * 1)[0].cpu()) == number
        with device_module.stream(side):
            ops.wait([x])
            w = x + 1
        ops.wait([w])
        assert float((w + 0)[0].cpu()) == number + 1


@pytest.mark.skipif(
    torch.accelerator.is_available(), reason="the cpu's refusal shows only without an accelerator"
)
def test_a_core_limit_is_refused_by_name_where_there_are_none() -> None:
    with pytest.raises(errors.Unsupported, match="limit_core_num"), scope.limit_core_num(4, 8):
        pass


def cores(stream: Any = None) -> tuple[int, int]:
    found = device_module.get_stream_limit(device_module.current_stream() if stream is None else stream)
    return found["cube_core_num"], found["vector_core_num"]


@CORES
def test_core_limits_nest_and_come_back_after_errors() -> None:
    before = cores()
    with scope.limit_core_num(12, 24):
        with contextlib.suppress(KeyError), scope.limit_core_num(4, 8), scope.npu_stream_switch("1"):
            assert cores() == (4, 8)
            raise KeyError
        assert cores() == (12, 24)
        with pytest.raises(RuntimeError), scope.limit_core_num(9999, 8):
            pass
        assert cores() == (12, 24)
    assert cores() == before
    with pytest.raises(errors.UnbalancedScope):
        torch.ops.air_streams.core_limit_exit()


@CORES
def test_a_thread_that_leaves_its_limit_late_does_not_leave_it_behind() -> None:
    before, entered, leave = cores(), threading.Event(), threading.Event()

    def other() -> None:
        device_module.set_device(0)
        with scope.limit_core_num(4, 8):
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with scope.limit_core_num(12, 24):
        thread.start()
        entered.wait()
        assert cores() == (4, 8)
    assert cores() == (4, 8)
    leave.set()
    thread.join()
    assert cores() == before


def test_a_tag_without_a_stream_makes_none_in_eager_code(device: str) -> None:
    from air_streams import _registry

    with scope.npu_stream_switch("never made"):
        x = torch.ones(2, device=device)
    ops.npu_record_tagged_stream(x, "never made")
    ops.npu_record_tagged_stream(x, "default")
    assert _registry.known_stream("never made", device) is None
    stream_for("made now", device)
    ops.npu_record_tagged_stream(x, "made now")
