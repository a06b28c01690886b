"""The errors of air-streams: what happened, where, and what to do.

Every class keeps its facts as fields, so that a caller can act on them without reading the text.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class StreamsError(Exception):
    """Base of all errors of this package."""

    what: str
    where: str = field(default="", kw_only=True)
    advice: str = field(default="", kw_only=True)

    def __str__(self) -> str:
        parts = [self.what]
        if self.where:
            parts.append(f"at {self.where}")
        if self.advice:
            parts.append(self.advice)
        return "\n  ".join(parts)


class InvalidArgument(StreamsError, ValueError):
    """A tag, priority, core number or tensor list that cannot be meant."""


class UnknownEvent(StreamsError, ValueError):
    """An event that was not made by `npu_create_tagged_event`."""


class StreamPriorityError(StreamsError, ValueError):
    """A priority that the device or the stream behind the tag cannot have."""


class Unsupported(StreamsError, NotImplementedError):
    """Something this device or this place cannot do."""


class UnbalancedScope(StreamsError):
    """A stream or core scope that is entered and left in different graphs, or crosswise."""


class NativeStreamError(StreamsError):
    """A native stream or event call that has no meaning inside a compiled graph."""


class StreamCheckError(StreamsError):
    """Raised with sync='error': the multi-stream program is not correct."""


class StreamRaceWarning(UserWarning):
    """The multi-stream program is not correct; the text names the pair, both lines and the fix."""
