"""One tag, one device, one stream, in the whole process."""

from __future__ import annotations

import threading

import pytest
import torch

from air_streams import adopt_stream, errors, stream_for


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
