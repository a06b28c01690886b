"""Whether a stream is being captured. A device is asked by the tests of air-backend beside a capture."""

from __future__ import annotations

import torch

from air_graph import is_captured


def test_no_stream_of_the_cpu_is_captured() -> None:
    assert not is_captured(torch.Stream(device="cpu"))
