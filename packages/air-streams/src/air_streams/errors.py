"""The errors of air-streams."""

from __future__ import annotations

from air_config.errors import AirError


class StreamsError(AirError):
    """Base of all errors of this package.

    Catch it to handle every error of the package; `what`, `where` and `advice` are its parts.
    """


class InvalidArgument(StreamsError, ValueError):
    """A tag, priority, core number or tensor list that cannot be meant.

    Give what the text asks for: a non-empty text as tag, a whole number, a list of tensors.
    """


class WrongArgumentType(InvalidArgument, TypeError):
    """An argument of a scope that is of another type than the scope takes.

    Give what the text asks for.
    """


class UnknownEvent(StreamsError, ValueError):
    """An event that was not made by `npu_create_tagged_event`.

    Pass what `npu_create_tagged_event` returned; native events have methods of their own.
    """


class StreamPriorityError(StreamsError, ValueError):
    """A priority that the device or the stream behind the tag cannot have.

    Use priority 0, or one that the device offers.
    """


class Unsupported(StreamsError, NotImplementedError):
    """Something this device or this place cannot do.

    Leave the call out on this device, or run where it is supported.
    """


class UnbalancedScope(StreamsError):
    """A stream or core scope that is entered and left in different graphs, or crosswise.

    Open and close the `with` block in the same function, without a graph break inside (`fullgraph=True` shows it).
    """


class NativeStreamError(StreamsError):
    """A native stream or event call that has no meaning inside a compiled graph.

    Take host synchronisation out of the compiled function, and use `with stream:` instead of a bare `set_stream`.
    """


class StreamCheckError(StreamsError):
    """Raised with sync='error': the multi-stream program is not correct.

    Add the wait that each finding proposes, or let `config.air.sync = "auto"` insert it.
    """


class StreamRaceWarning(UserWarning):
    """The multi-stream program is not correct; the text names the pair, both lines and the fix.

    Add the wait that the text proposes, or compile with `config.air.sync = "auto"`.
    """


class ScopeIgnored(UserWarning):
    """A scope speaks to the graph engine, and the graph is captured instead; the text names the line.

    Compile with `config.mode = "max-autotune"`, or take the scope out.
    """
