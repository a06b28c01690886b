"""Blocks of a model: on which stream, and with how many cores, the operators inside run.

    with npu_stream_switch("1"):
        y = torch.mm(a, b)

The same tag is the same stream everywhere in the process; blocks nest; tag `"default"` is the stream on which
the outermost block (or the compiled graph) was entered.
"""

from __future__ import annotations

from types import TracebackType

import torch

from air_streams._tags import checked_cores, checked_priority, checked_tag
from air_streams.errors import InvalidArgument

__all__ = ["limit_core_num", "npu_stream_switch", "npu_wait_tensor"]


class npu_stream_switch:  # noqa: N801 -- the name of the seed's API
    """Context manager: operators inside run on the stream behind `stream_tag`."""

    def __init__(self, stream_tag: str, stream_priority: int = 0) -> None:
        self.stream_tag = checked_tag(stream_tag, "stream_tag")
        self.stream_priority = checked_priority(stream_priority, stream_tag)

    def __enter__(self) -> npu_stream_switch:
        torch.ops.air_streams.stream_enter(self.stream_tag, self.stream_priority)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        torch.ops.air_streams.stream_exit(self.stream_tag)


class limit_core_num:  # noqa: N801 -- the name of the seed's API
    """Context manager: operators inside use at most so many AI cores and vector cores."""

    def __init__(self, op_aicore_num: int, op_vectorcore_num: int) -> None:
        self.op_aicore_num = checked_cores(op_aicore_num, "op_aicore_num")
        self.op_vectorcore_num = checked_cores(op_vectorcore_num, "op_vectorcore_num")
        if op_aicore_num < 1:
            raise InvalidArgument(
                f"op_aicore_num must be at least 1, got {op_aicore_num}",
                advice="every chip has an AI core; only op_vectorcore_num may be 0, on chips without vector cores",
            )

    def __enter__(self) -> limit_core_num:
        torch.ops.air_streams.core_limit_enter(self.op_aicore_num, self.op_vectorcore_num)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        torch.ops.air_streams.core_limit_exit()


def npu_wait_tensor(self: torch.Tensor, dependency: torch.Tensor) -> torch.Tensor:
    """`self`, once `dependency` is computed: what follows on the current stream waits for `dependency`."""
    for name, value in (("self", self), ("dependency", dependency)):
        if not isinstance(value, torch.Tensor):
            raise InvalidArgument(f"{name} of npu_wait_tensor must be a tensor, got {value!r}")
    torch.ops.air_streams.wait([dependency])
    return self
