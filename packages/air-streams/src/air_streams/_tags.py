"""What may name a stream, an event, a priority or a number of cores, and what is said when it may not."""

from __future__ import annotations

from typing import Final

import torch

from air_streams.errors import InvalidArgument

ENTRY_TAG: Final = "default"
"""The tag of the stream on which the graph was entered: the main stream."""


HIGHEST_PRIORITY: Final = 100
"""No device has that many; which ones yours has is known when the stream is made."""
MOST_CORES: Final = 9999
"""No chip has that many; how many yours has is known where the block runs."""


def checked_tag(tag: object, role: str) -> str:
    """The tag itself, or an error which says what a tag is."""
    if not isinstance(tag, str) or not tag.strip():
        raise InvalidArgument(
            f"{role} must be a non-empty string, got {tag!r}",
            advice="name the stream or event with a string such as '1'; the same string names the same one",
        )
    return tag


def checked_tensor(value: object, role: str) -> torch.Tensor:
    """The tensor itself, or an error which says where one is wanted."""
    if not isinstance(value, torch.Tensor):
        raise InvalidArgument(
            f"{role} must be a tensor, got {value!r}",
            advice="give a tensor that the function computes or is given, or what record() returned",
        )
    return value


def checked_priority(priority: object, tag: str) -> int:
    """The priority itself, or an error; whether the device has it is known only when the stream is made."""
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > HIGHEST_PRIORITY:
        raise InvalidArgument(
            f"stream_priority of stream '{tag}' must be an int from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}, "
            f"got {priority!r}",
            advice="use 0 for the device's default, a smaller number for a higher priority",
        )
    return priority


def checked_cores(count: object, name: str) -> int:
    """The number of cores, of a number or its text; the upper bound is the chip's and is checked where it runs."""
    if isinstance(count, str) and count.isdecimal():
        count = int(count)  # TorchAir's examples write text
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_CORES:
        raise InvalidArgument(
            f"{name} must be an int from 0 to {MOST_CORES}, got {count!r}",
            advice="give the number of cores that operators in the block may use",
        )
    return count
