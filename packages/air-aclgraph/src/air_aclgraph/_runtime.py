"""What the executor asks of a device: streams and events, a capture, a replay, addresses, limits.

    HostRuntime          plain CPU tensors, nothing but torch
    AcceleratorRuntime   npu and cuda through their torch device modules

Both record a `Body`, a straight function of the graph's inputs, into a `Recording` that `replay()` repeats.
What only some devices can do is listed in `Abilities`: asking for it elsewhere is an `Unsupported` error that
names the option and the runtime, never a silent no.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.fx import Node

from air_aclgraph._addresses import AddressTests
from air_aclgraph._copies import Copies
from air_aclgraph._kept import Holders
from air_graph import Ownership, SourceLine

Body = Callable[..., Any]
Sample = tuple[Sequence[Any], Sequence[Any]]
ErrorMode = Literal["global", "thread_local", "relaxed"]


@dataclass(frozen=True)
class Abilities:
    """What a runtime can do beyond capture and replay."""

    runs_while_recording: bool = False
    parameter_update: bool = False
    core_limits: bool = False
    super_kernel: bool = False
    deterministic_level: bool = False
    follows_tensors: bool = False
    """Whether a replay goes through the tensors of the capture, wherever they are by then, and not to addresses."""


@dataclass(frozen=True)
class Limits:
    """What the device has to give; None where it does not say."""

    streams: int | None = None
    events: int | None = None
    tasks: int | None = None
    free_bytes: int | None = None


@dataclass(frozen=True)
class Request:
    """How a capture is to be made.

    With `share_outputs` other captures may use the memory of the outputs. With a `sample`, the outputs and the inputs
    of an ordinary run of the same program just before, none does: it is made before the capture, as the sample says.
    Nor does one with `own_pool`, which has nothing of its memory in common with others.
    """

    error_mode: ErrorMode = "thread_local"
    pool: Any = None
    share_outputs: bool = False
    sample: Sample | None = field(default=None, repr=False)
    own_pool: bool = False
    in_inference_mode: bool = False
    share_pool: bool = True
    super_kernel: bool = False
    super_kernel_options: dict[str, Any] | None = None
    super_kernel_debug_options: dict[str, Any] | None = None
    graph: str = "graph"
    where: SourceLine | None = None
    owning: tuple[Ownership, ...] = ()
    """Of each output, whether it owns its memory in eager; none is said to, where this is empty."""


@dataclass(frozen=True)
class UpdatableCall:
    """An operator and where in its arguments the values are that a replay may change."""

    overload: OpOverload
    places: Mapping[str, int | str]

    def with_values(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], values: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with new values in their places."""
        positional, named = list(args), dict(kwargs)
        for name, value in values.items():
            place = self.places[name]
            if isinstance(place, int) and place < len(positional):
                positional[place] = value
            else:
                named[name] = value
        return tuple(positional), named


@dataclass
class Recording:
    """One captured run: `replay()` repeats it; `outputs` are the tensors it writes each time.

    `replay_with` takes new host parameters, one mapping per updatable operator in the order they ran.
    `ran` says that the recording run itself computed the outputs: they are `first`, and the first call needs
    no replay and has them for itself.  `explain_error` makes an error of a replay readable; it gives back what is not
    the device's.
    `claims` says how many tensors the recording itself has over each storage that it made and that no other
    recording writes; the outputs among those may be lent to callers. `holders` are the tensors that live as long as it
    does, its inputs among them. `lent` are the storages that a forward half lends its backward half.
    """

    replay: Callable[[], None]
    outputs: tuple[Any, ...]
    nbytes: int
    tasks: int
    ran: bool
    release: Callable[[], None]
    notes: tuple[str, ...] = ()
    replay_with: Callable[[Sequence[Mapping[str, Any]]], None] | None = None
    first: tuple[Any, ...] = field(default=(), repr=False)
    explain_error: Callable[[RuntimeError], RuntimeError] | None = None
    claims: Mapping[int, int] = field(default_factory=dict, repr=False)
    holders: Holders = field(default_factory=lambda: Holders(()), repr=False)
    lent: frozenset[int] = frozenset()


@dataclass(frozen=True)
class StreamTest:
    """Asks before a replay whether the caller is still on the stream of the last one.

    `current()` is a number for the caller's stream, `last[0]` that of the last replay.  If they differ,
    `switch()` orders the streams, and says no when the caller's stream is being captured.
    """

    current: Callable[[], int]
    last: list[int]
    switch: Callable[[], bool]


class Runtime(Protocol):
    """A device the executor can capture on."""

    @property
    def name(self) -> str:
        """What messages call this runtime."""

    @property
    def device(self) -> torch.device:
        """The device whose work is captured."""

    @property
    def abilities(self) -> Abilities:
        """What it can do beyond capture and replay."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held during captures and replays: all graphs of a runtime share memory."""

    def run(self, body: Body, inputs: Sequence[object]) -> Any:
        """Runs `body(*inputs)` once without capturing it, on the stream captures are made on."""

    def record(self, body: Body, inputs: Sequence[object], request: Request) -> Recording:
        """Captures one run of `body(*inputs)`."""

    def unowned(self, tensor: Tensor) -> Tensor:
        """Another tensor over the same memory, which does not keep it alive."""

    def trim(self) -> None:
        """Gives back memory that no recording uses any more."""

    def pool_nbytes(self) -> int:
        """Bytes the shared pool of this runtime holds now."""

    def limits(self) -> Limits:
        """What is left on the device."""

    def synchronize(self) -> None:
        """Waits for everything queued on the device."""

    def stream(self, tag: str, priority: int) -> Any:
        """The process-wide stream of a tag."""

    def enter_stream(self, stream: Any) -> None:
        """Queues what follows on `stream`, until `exit_stream`; None is the stream the run began on."""

    def exit_stream(self) -> None:
        """Goes back to the stream that was current before."""

    def limit_cores(self, aicore: int, vectorcore: int) -> None:
        """Saves the core limits of the current stream and sets these."""

    def restore_cores(self) -> None:
        """Puts back what `limit_cores` saved."""

    def enter_determinism(self, level: int) -> None:
        """Operators captured from here on are those of a level of determinism, until `exit_determinism`."""

    def exit_determinism(self) -> None:
        """Goes back to the level from before."""

    def updatable(self, call: UpdatableCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls an operator whose host parameters a replay may change."""

    def higher_order(self, node: Node) -> Callable[..., Any] | None:
        """What to call for a higher-order operator, None for itself; refuses one that cannot be captured."""

    def new_event(self) -> Any:
        """An event to order streams with."""

    def record_event(self, event: Any) -> None:
        """Records `event` on the current stream."""

    def wait_event(self, event: Any) -> None:
        """Makes the current stream wait for `event`."""

    def use_on_stream(self, tensor: Tensor, stream: Any) -> None:
        """Delays the reuse of the tensor's block until the work queued on `stream` is done."""

    def address_tests(self) -> AddressTests:
        """Makes the fastest test that the arguments of a call are at given addresses."""

    def ready(self) -> StreamTest | None:
        """A test to make before each replay; None where nothing can be in its way."""

    def turn(self) -> list[bool] | None:
        """Its element is true while a capture or a replay runs; None where that can call nothing of the user's."""

    def copies(self) -> Copies | None:
        """Makes the copies into buffers; None where torch's own are the ones to use."""

    def copies_back(self) -> Copies | None:
        """Makes the copies out of buffers into the tensors of a call; None where torch's own are the ones to use."""

    def buffer_like(self, tensor: Tensor) -> Tensor | None:
        """A buffer for a tensor whose memory is not plain strided; None when an ordinary one will do."""

    def is_recording(self) -> bool:
        """Whether the current stream is being captured, by this executor or by somebody else."""
