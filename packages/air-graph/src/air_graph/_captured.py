"""Whether a stream is being captured: one that is and one that is not may not wait for each other.

stream = torch.npu.Stream()
with torch.npu.graph(graph, stream=stream):
    is_captured(stream)                     True: who waits for it here becomes a part of the capture

torch gives the same few streams out in turn, so a capture of the program may be on one that a graph of AIR uses.
"""

from __future__ import annotations

from typing import Any

import torch


def is_captured(stream: torch.Stream) -> bool:
    """Whether the stream takes part in a capture now.

    Devices tell it of the current stream only: `stream.is_capturing()` is always False on an NPU.
    """
    module: Any = torch.get_device_module(stream.device)
    if not hasattr(module, "is_current_stream_capturing"):
        return False
    with module.stream(stream):
        return bool(module.is_current_stream_capturing())
