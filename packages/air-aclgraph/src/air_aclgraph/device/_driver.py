"""Turns what the driver says into a cause, the user's line and advice.

A driver reports a number: 207005 reads "failed to apply for memory" when it was a stream that ran out, and
107030 names a copy that nobody wrote.  The table says what each number means for a capture.  A code that is
not in it is passed on with its number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import torch

from air_aclgraph._runtime import Limits
from air_aclgraph.errors import (
    AclGraphError,
    CaptureFailed,
    IllegalDuringCapture,
    OutOfMemory,
    ReplayFailed,
    ResourcesExhausted,
)
from air_graph import SourceLine
from air_graph.errors import first_line


@dataclass(frozen=True)
class Cause:
    """What a driver code means while a graph is captured or replayed."""

    what: str
    advice: str
    resource: str = ""
    illegal: bool = False


_FEWER: Final = (
    "capture fewer shapes (debug.aclgraph.static_capture_size_limit, or pad inputs to fewer sizes), use fewer "
    "streams inside the graph, or close executables that are no longer called"
)
_SMALLER: Final = (
    "capture the largest shape first so that the others fit into its memory, set outputs='clone' so that keys "
    "share output memory, or lower debug.aclgraph.static_capture_size_limit or air.cache.limit_bytes"
)
_OUTSIDE: Final = (
    "move the call out of the compiled function; if another thread makes it, set "
    "debug.aclgraph.capture_error_mode = 'thread_local'"
)

_OPERATOR: Final = "run the model with run_eagerly to find the operator"
_FIRST: Final = "fix the first error reported"
_AT_FAULT: Final = "run the model with run_eagerly: if it fails there too, the operator is at fault"
_BUG: Final = "report this as a bug"

CAUSES: Final[dict[int, Cause]] = {
    207000: Cause("the driver does not do this in a capture", _OUTSIDE, illegal=True),
    207001: Cause("the device is out of memory", _SMALLER, resource="memory"),
    207018: Cause("the device is out of memory", _SMALLER, resource="memory"),
    207005: Cause(
        "the driver could not allocate a resource of the capture (streams, events or their memory)",
        _FEWER,
        resource="streams",
    ),
    207007: Cause("the device has no event left", _FEWER, resource="events"),
    207008: Cause("the device has no stream left", _FEWER, resource="streams"),
    207009: Cause("the device has no notify left", _FEWER, resource="notifies"),
    207010: Cause("the device holds as many captured graphs as it can", _FEWER, resource="graphs"),
    507002: Cause("a captured stream has more tasks than the device allows", _FEWER, resource="tasks"),
    107022: Cause(
        "the device is aborting its tasks", "fix the first error reported, then start the process again"
    ),
    107023: Cause("the stream was aborted by an earlier error", _FIRST),
    107024: Cause(
        "a captured stream waits for an event that was recorded outside the capture",
        "record the event inside the compiled function, or wait for it before the call",
        illegal=True,
    ),
    107025: Cause(
        "a stream that joined the capture never came back to it",
        "record an event at the end of the side stream's work and wait for it on the main stream before the "
        "function returns, or compile with sync='auto'",
    ),
    107026: Cause("the graph is still being captured", _OUTSIDE, illegal=True),
    107027: Cause(
        "a captured stream was synchronised, queried or destroyed by the host", _OUTSIDE, illegal=True
    ),
    107028: Cause("an event of a capture was queried by the host", _OUTSIDE, illegal=True),
    107029: Cause(
        "a stream that is not being captured was used as if it were",
        _FIRST,
        illegal=True,
    ),
    107030: Cause(
        "an operation that waits for the host ran during the capture (a synchronous copy, .item(), an "
        "allocation under memory pressure)",
        _OUTSIDE,
        illegal=True,
    ),
    107031: Cause(
        "the default stream was used while another stream is being captured", _OUTSIDE, illegal=True
    ),
    107032: Cause("a wait would join two captures", "use one event per compiled function", illegal=True),
    107033: Cause("the group of updatable tasks is not in the right state", _BUG),
    107034: Cause(
        "a group of updatable tasks was interrupted by work on another stream",
        "keep the updatable operator on one stream",
    ),
    107036: Cause("the capture was ended on another stream than it was begun on", _BUG),
    107038: Cause("the capture was ended by another thread than began it", _BUG),
    107041: Cause("an asynchronous operation had to wait during the capture", _OUTSIDE, illegal=True),
    507011: Cause("a captured graph failed on the device", _OPERATOR),
    507014: Cause("a kernel ran into its time limit", _OPERATOR),
    507015: Cause("a kernel failed on the device", _OPERATOR),
    507018: Cause("an AI CPU kernel failed", _OPERATOR),
    507034: Cause("a vector kernel ran into its time limit", _OPERATOR),
    507035: Cause("a vector kernel failed", _OPERATOR),
    507046: Cause(
        "the device waited too long for an event",
        "a wait in the graph has no record before it: check the streams with explain()",
    ),
}
"""Driver codes that have a meaning for captures, and what to do about them."""

OF_TORCH_NPU: Final[dict[str, Cause]] = {
    "Do not support TASK_QUEUE_ENABLE = 2": Cause(
        "torch_npu captures nothing under TASK_QUEUE_ENABLE=2",
        "start the process with TASK_QUEUE_ENABLE=1, the default, or run the model with run_eagerly",
    ),
    "not supported when pin_memory_expandable_segments=True": Cause(
        "torch_npu captures nothing with pin_memory_expandable_segments",
        "take pin_memory_expandable_segments out of PYTORCH_NPU_ALLOC_CONF, or run the model with run_eagerly",
    ),
}
"""Settings of the process under which torch_npu refuses every capture."""

OF_POOLS: Final[dict[str, Cause]] = {
    "use_count > 0 INTERNAL ASSERT FAILED": Cause(
        "the pool of the caller (aclgraph_config.use_custom_pool, use_graph_pool) is gone: it ends with the last "
        "graph in it, as torch._dynamo.reset() drops them",
        "take a new one: graph_pool_handle() of the device module, in a configuration made after the reset",
    ),
}
"""What torch's allocators say of a pool that no graph holds any more."""

OF_CUDA: Final[dict[str, Cause]] = {
    "operation not permitted when stream is capturing": CAUSES[107030],
    "Cannot copy between CPU and CUDA tensors during CUDA graph capture": CAUSES[107030],
    "operation failed due to a previous error during capture": Cause(
        "an operation before it had ended the capture", _OUTSIDE, illegal=True
    ),
    "operation would result in a merge of separate capture sequences": CAUSES[107032],
    "capture was not ended in the same stream": CAUSES[107036],
    "capturing stream has unjoined work": CAUSES[107025],
    "dependency created on uncaptured work in another stream": CAUSES[107024],
    "operation would make the legacy stream depend on a capturing blocking stream": CAUSES[107031],
    "operation not permitted on an event last recorded in a capturing stream": CAUSES[107028],
    "attempt to terminate a thread-local capture sequence from another thread": CAUSES[107038],
}
"""What CUDA says instead of a code, to what it means."""

_LAUNCH: Final = re.compile(
    r"process exits for this inner error, and the current working (operator|event)(?: name)? is ([\w:]+)"
)
"""What torch_npu says of a launch that it had queued, once its launch thread has ended with it."""

_RESOURCES: Final = 200000
"""Codes below it say that a call was not allowed where it was made; those above it, that the device failed."""

_CODE: Final = re.compile(r"(?<!\d)([125]07\d{3})(?!\d)")


def driver_code(error: BaseException) -> int | None:
    """The driver code in the text of an error; one from the table before any other number like it."""
    codes = [int(code) for code in _CODE.findall(str(error))]
    known = [code for code in codes if code in CAUSES]
    return next(iter(known or codes), None)


def _cause_of(error: BaseException, code: int | None) -> Cause | None:
    """What the text of an error means; None where nothing is known of it."""
    if (launch := _LAUNCH.search(str(error))) is not None:
        return Cause(
            f"torch_npu could not launch {launch[1]} {launch[2]}, which it had queued, and launches nothing more "
            "in this process",
            "start the process again: what it printed before this error is the cause, and ASCEND_LAUNCH_BLOCKING=1 "
            "names the line",
        )
    texts = OF_TORCH_NPU | OF_POOLS | OF_CUDA
    return CAUSES.get(code or 0) or next((texts[said] for said in texts if said in str(error)), None)


def translate(error: RuntimeError, limits: Limits) -> AclGraphError:
    """The error of a failed capture, with its cause and what to do."""
    if isinstance(error, torch.OutOfMemoryError):
        return OutOfMemory(
            f"the capture failed: {first_line(error)}", advice=_SMALLER, available=limits.free_bytes
        )
    code = driver_code(error)
    cause = _cause_of(error, code) or Cause(
        first_line(error), _AT_FAULT, illegal=code is None or code < _RESOURCES
    )
    what = f"the capture failed: {cause.what}"
    if cause.resource == "memory":
        return OutOfMemory(what, advice=cause.advice, code=code, available=limits.free_bytes)
    if cause.resource:
        return ResourcesExhausted(what, advice=cause.advice, code=code, resource=cause.resource)
    if cause.illegal:
        return IllegalDuringCapture(what + (f" (driver code {code})" if code else ""), advice=cause.advice)
    return CaptureFailed(what, advice=cause.advice, code=code)


def replay_error(error: RuntimeError, graph: str, where: SourceLine | None = None) -> RuntimeError:
    """The error of a failed replay; one that nothing is known of is the caller's own, and stays as it is."""
    code = driver_code(error)
    cause = _cause_of(error, code)
    if (cause is None and code is None) or isinstance(error, AclGraphError):
        return error
    cause = cause or Cause(first_line(error), _OPERATOR)
    made = ReplayFailed(
        f"a replay of {graph} failed: {cause.what}", where=where, advice=cause.advice, graph=graph, code=code
    )
    made.__cause__ = error
    return made
