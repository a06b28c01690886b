"""Every error of air-aclgraph; a program can react to the fields that the message is made from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import torch

from air_config.errors import AirError
from air_graph import SourceLine

CUT_OR_EAGER: Final = (
    "let the graph be cut there (air.uncapturable = 'split'), or run this model with run_eagerly"
)
_OUTSIDE: Final = f"keep it outside the compiled function, {CUT_OR_EAGER}"
Where = SourceLine
"""The name it had here before air-graph; kept for one release."""


@dataclass(eq=False)
class AclGraphError(AirError, RuntimeError):
    """Base of the errors of air-aclgraph.

    Catch it to handle every error of the package; `what`, `where` and `advice` are its parts.
    """

    what: str
    where: SourceLine | None = None
    advice: str = ""


@dataclass(eq=False)
class Unsupported(AclGraphError):
    """The chosen runtime does not support an option or an operation.

    Remove the option, or run on the runtime that the message names.
    """

    option: str = ""
    runtime: str = ""


@dataclass(eq=False)
class InputRefused(AclGraphError):
    """An input can be neither copied, nor bound, nor made part of the key.

    Give plain dense tensors, numbers or lists of them; convert a subclass or a sparse tensor before the call.
    """

    input: str = ""


@dataclass(eq=False)
class BucketsRefused(AclGraphError):
    """Buckets that were declared for a graph that padding would change, or whose inputs cannot be padded.

    The message names the operator that lets padding reach a result, and its line. Pad in your program, where you know
    what is safe, or declare no buckets: every size is then captured as it comes.
    """

    operator: str = ""


@dataclass(eq=False)
class IllegalDuringCapture(AclGraphError):
    """An operation needs the host during a capture.

    Move the operator out of the compiled function, or run with `config.debug.run_eagerly = True`. The message names the
    operator and its line.
    """

    operator: str = ""

    @classmethod
    def of(
        cls, operator: object, reason: str, where: SourceLine | None = None, advice: str = _OUTSIDE
    ) -> IllegalDuringCapture:
        """The refusal of an operator, for a reason."""
        what = f"{operator} cannot run inside a capture: {reason}"
        return cls(what, where=where, advice=advice, operator=str(operator))


@dataclass(eq=False)
class CaptureFailed(AclGraphError):
    """The capture of one shape key failed; everything it had allocated is released.

    Read the cause and the driver's code in the message; the next call tries again. `run_eagerly` runs the graph without
    a capture meanwhile.
    """

    graph: str = ""
    key: tuple[object, ...] = ()
    code: int | None = None

    def details(self) -> Iterable[tuple[str, object]]:
        yield "graph", f"{self.graph}, key {self.key}"
        yield "driver code", self.code


@dataclass(eq=False)
class ResourcesExhausted(CaptureFailed):
    """The device ran out of streams, events or memory, or the plan says that it will.

    Reduce what the message names: the number of shapes (`static_capture_size_limit`), of streams, or of graphs.
    """

    resource: str = ""
    needed: int | None = None
    available: int | None = None

    def details(self) -> Iterable[tuple[str, object]]:
        yield from super().details()
        if self.needed is not None:
            available = "unknown" if self.available is None else self.available
            yield self.resource, f"needed {self.needed}, available {available}"


@dataclass(eq=False)
class OutOfMemory(ResourcesExhausted, torch.OutOfMemoryError):
    """The device has no memory for a capture; a program that catches torch's error catches it.

    Capture the largest shape first, so that the others fit into its memory, or fewer shapes, or take smaller batches.
    """

    resource: str = "memory"


@dataclass(eq=False)
class ReplayFailed(AclGraphError):
    """The device reported an error while a captured graph ran.

    The fault is in an operator of the graph: run with `config.debug.run_eagerly = True` to find out which.
    """

    graph: str = ""
    code: int | None = None

    def details(self) -> Iterable[tuple[str, object]]:
        yield "driver code", self.code


@dataclass(eq=False)
class StaleOutput(AclGraphError):
    """An output of a replay was used after a later replay had overwritten its memory.

    Clone the value before the next call, or compile with `config.air.outputs = "clone"`.
    """

    output: str = ""
    produced: int = 0
    overwritten: int = 0


@dataclass(eq=False)
class UpdateRefused(AclGraphError):
    """A host parameter cannot be updated between replays in the way that the graph asks for.

    Pass the lengths as ints or lists of ints and use them for nothing else, or make them part of the shape.
    """

    operator: str = ""
    parameter: str = ""


@dataclass(eq=False)
class Closed(AclGraphError):
    """An executable was called after `close()`, or in a process forked from the one that captured it.

    Compile again; do not keep an executable after `torch._dynamo.reset()` or `close()`.
    """
