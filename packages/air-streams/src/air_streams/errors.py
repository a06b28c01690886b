"""The errors of air-streams."""

from __future__ import annotations

from air_config.errors import AirError


class StreamsError(AirError):
    """Base of all errors of this package.

    Catch it to handle every error of the package; `what`, `where` and `advice` are its parts.
    """


class InvalidArgument(StreamsError, ValueError):
    """A tag, priority, core number or list of tensors is not valid.

    Give what the message asks for: a non-empty string as tag, a whole number, a list of tensors.
    """


class WrongArgumentType(InvalidArgument, TypeError):
    """An argument of a scope has the wrong type.

    Give the type that the message asks for.
    """


class UnknownEvent(StreamsError, ValueError):
    """An event does not come from `npu_create_tagged_event`.

    Pass what `npu_create_tagged_event` returns; native events have their own methods.
    """


class StreamPriorityError(StreamsError, ValueError):
    """The device, or the stream with this tag, cannot have this priority.

    Use priority 0, or one that the device offers.
    """


class Unsupported(StreamsError, NotImplementedError):
    """The device does not support the call, or not at this place.

    Remove the call on this device, or run on a device that supports it.
    """


class UnbalancedScope(StreamsError):
    """A stream or core scope is entered and left in different graphs, or two scopes overlap without nesting.

    Open and close the `with` block in the same function, without a graph break inside (`fullgraph=True` shows it).
    """


class NativeStreamError(StreamsError):
    """A native stream or event call has no meaning inside a compiled graph.

    Move host synchronisation out of the compiled function, and use `with stream:` instead of a bare `set_stream`.
    """


class StreamCheckError(StreamsError):
    """Raised with sync='error': the multi-stream program is not correct.

    Add the wait that each finding proposes, or let `config.air.sync = "auto"` insert it.
    """


class StreamRaceWarning(UserWarning):
    """The multi-stream program is not correct; the message names the pair, both lines and the fix.

    Add the wait that the message proposes, or compile with `config.air.sync = "auto"`.
    """


class ScopeIgnored(UserWarning):
    """A scope is meant for the graph engine, but the graph is captured instead; the message names the line.

    Compile with `config.mode = "max-autotune"`, or remove the scope.
    """
