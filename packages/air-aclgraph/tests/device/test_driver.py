"""Driver codes become causes and advice."""

from __future__ import annotations

import pytest
import torch

from air_aclgraph import Limits
from air_aclgraph.device._driver import (
    CAUSES,
    OF_CUDA,
    OF_POOLS,
    OF_TORCH_NPU,
    driver_code,
    replay_error,
    translate,
)
from air_aclgraph.errors import (
    CaptureFailed,
    IllegalDuringCapture,
    OutOfMemory,
    ReplayFailed,
    ResourcesExhausted,
)
from air_graph import SourceLine


def raised(code: int) -> RuntimeError:
    return RuntimeError(f"acl call failed\n[ERROR] 2026-11-21 (PID:10, Device:0) error code is {code}\n more")


@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        (207005, ResourcesExhausted, "could not allocate a resource of the capture"),
        (207008, ResourcesExhausted, "no stream left"),
        (207001, OutOfMemory, "out of memory"),
        (107025, CaptureFailed, "never came back"),
        (107027, IllegalDuringCapture, "synchronised"),
        (107030, IllegalDuringCapture, "waits for the host"),
        (507015, CaptureFailed, "a kernel failed"),
        (207000, IllegalDuringCapture, "does not do this in a capture"),
        (107999, IllegalDuringCapture, "acl call failed"),
        (507999, CaptureFailed, "acl call failed"),
    ],
)
def test_a_code_is_translated_into_a_cause_and_advice(code: int, kind: type[Exception], says: str) -> None:
    error = translate(raised(code), Limits())
    assert type(error) is kind
    assert says in str(error)
    assert str(code) in str(error)
    assert "advice" in str(error)


@pytest.mark.parametrize(
    ("said", "kind", "says"),
    [
        (
            "CUDA error: operation not permitted when stream is capturing\nSearch for",
            IllegalDuringCapture,
            "out of",
        ),
        ("CUDA error: capturing stream has unjoined work\nSearch for", CaptureFailed, "never came back"),
        (
            "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless",
            IllegalDuringCapture,
            "waits",
        ),
    ],
)
def test_cuda_s_words_are_translated_like_a_code(said: str, kind: type[Exception], says: str) -> None:
    error = translate(RuntimeError(said), Limits())
    assert type(error) is kind
    assert says in str(error)


@pytest.mark.parametrize("allocator", ["NPUCachingAllocator", "CUDACachingAllocator"])
def test_a_pool_that_ended_with_its_last_graph_asks_for_a_new_handle(allocator: str) -> None:
    said = f'it->second->use_count > 0 INTERNAL ASSERT FAILED at "{allocator}.cpp":2239, please report a bug'
    error = translate(RuntimeError(said), Limits())
    assert isinstance(error, CaptureFailed)
    assert "the pool of the caller" in str(error)
    assert "take a new one" in error.advice
    assert "run_eagerly" not in str(error)


def test_every_cause_has_advice() -> None:
    assert all(
        cause.advice and cause.what
        for table in (CAUSES, OF_CUDA, OF_TORCH_NPU, OF_POOLS)
        for cause in table.values()
    )


def test_an_unknown_code_is_passed_on_with_its_number() -> None:
    error = translate(raised(507899), Limits())
    assert isinstance(error, CaptureFailed)
    assert error.code == 507899


def test_a_time_of_day_is_no_driver_code() -> None:
    assert driver_code(RuntimeError("at 1070301 or 2026-11-21 nothing happened")) is None


def test_memory_says_how_much_there_is() -> None:
    for told in (torch.OutOfMemoryError("tried to allocate 4 GiB"), raised(207001)):
        error = translate(told, Limits(free_bytes=100))
        assert isinstance(error, ResourcesExhausted)
        assert error.available == 100
        assert "largest shape first" in str(error)


def test_a_program_that_catches_a_lack_of_memory_catches_that_of_a_capture() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        raise translate(raised(207018), Limits())
    assert not isinstance(translate(raised(207008), Limits()), torch.OutOfMemoryError)


def test_a_failed_replay_names_the_graph() -> None:
    error = replay_error(raised(507015), "decoder", SourceLine.at("model.py", 7, "return self.head(x)"))
    assert isinstance(error, ReplayFailed)
    assert "a replay of decoder failed: a kernel failed on the device" in str(error)
    assert "model.py:7" in str(error)
    assert "507015" in str(error)


def test_an_error_that_is_not_the_devices_stays_as_it_is() -> None:
    error = RuntimeError("the size of tensor a must match the size of tensor b")
    assert replay_error(error, "decoder") is error


def test_a_launch_that_torch_npu_had_queued_is_named_and_the_process_is_over() -> None:
    said = "The Inner error is reported as above. The process exits for this inner error, and the current working "
    captured = translate(
        RuntimeError(f"{said}operator name is aclnnReduceSum.\nSince the operator"), Limits()
    )
    replayed = replay_error(RuntimeError(f"{said}event is 0x1295fda0.\nSince the operator"), "decoder")
    assert isinstance(captured, CaptureFailed)
    assert "torch_npu could not launch operator aclnnReduceSum" in str(captured)
    assert isinstance(replayed, ReplayFailed)
    assert "could not launch event 0x1295fda0" in str(replayed)
    for error in (captured, replayed):
        assert "start the process again" in str(error)
