"""One tag, one device, one stream, in the whole process."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest
import torch

from air_streams import _eager, _events, _native, _registry, adopt_stream, errors, ops, stream_for


def test_W15_the_same_tag_is_the_same_stream_whoever_asks() -> None:
    streams: list[torch.Stream] = []
    threads = [threading.Thread(target=lambda: streams.append(stream_for("shared", "cpu"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(stream is streams[0] for stream in streams)
    assert stream_for("shared", torch.device("cpu")) is streams[0]
    assert stream_for("other", "cpu") is not streams[0]


def test_a_priority_the_device_cannot_give_is_refused_by_name() -> None:
    with pytest.raises(errors.StreamPriorityError, match=r"'urgent'.*-1.*cpu") as caught:
        stream_for("urgent", "cpu", priority=-1)
    assert "stream_priority" in str(caught.value)


def test_the_entry_stream_is_not_in_the_table() -> None:
    with pytest.raises(errors.InvalidArgument, match="entered"):
        stream_for("default", "cpu")


def test_a_stream_of_the_user_can_stand_behind_a_tag() -> None:
    own = torch.Stream(device="cpu")
    adopt_stream("own", own)
    assert stream_for("own", "cpu") is own


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_forked_while_another_thread_looks_a_stream_up_does_not_wait_for_it() -> None:
    taken, give_back = threading.Event(), threading.Event()

    def hold() -> None:
        with _registry._lock, _events._lock, _native._lock, _records_of_limits():
            taken.set()
            give_back.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(5)
        stream_for("of a child", "cpu")
        ops.npu_create_tagged_event("of a child")
        _native.stream_tag(torch.Stream(device="cpu"))
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    give_back.set()
    thread.join()
    assert code == 0


def _records_of_limits() -> Any:
    return _eager._limits.lock


@pytest.mark.parametrize("priority", [True, 1.5, "high", 10**6, float("nan")])
def test_a_priority_is_an_int_of_a_size_that_devices_know(priority: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="from -100 to 100"):
        stream_for("by priority", "cpu", priority=priority)


def test_what_is_no_stream_stands_behind_no_tag() -> None:
    with pytest.raises(errors.InvalidArgument, match="takes a stream"):
        adopt_stream("nothing", None)  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(errors.InvalidArgument, match="non-empty string"):
        adopt_stream(7, torch.Stream(device="cpu"))  # type: ignore[arg-type]  # the mistake under test
