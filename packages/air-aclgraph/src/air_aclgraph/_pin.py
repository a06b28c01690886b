"""A pinned call: one captured key, bound to the parameters it was captured with.

    step = executable.pin(*args)        # captures the key of these inputs if need be
    step(x)                             # copies x, replays, returns the outputs

What comes back is the memory of the capture itself: the next call of the handle writes it again, and so does any other
call of its key.  Clone what you keep.

The caller vouches for shapes, dtypes and parameters: neither Dynamo nor the address test is entered.  Only the
inputs that are copied are passed, in their order; everything else is what it was in `args`.  Nothing is recorded for
gradients, as in any call of a captured graph.  A handle whose key was captured again, dropped or closed raises instead
of replaying memory that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from air_aclgraph._captured import Captured, Run
from air_aclgraph._clashes import COPIES
from air_aclgraph._modes import without_modes
from air_aclgraph._options import Options
from air_aclgraph._outputs import GuardedOutputs, finisher, fixed_outputs
from air_aclgraph._slots import why_without_memory
from air_aclgraph.errors import Closed, InputRefused

if TYPE_CHECKING:
    from air_aclgraph._executable import Executable


def run_to_pin(captured: Captured, options: Options, guarded: GuardedOutputs) -> Run:
    """What replays a capture without any check, and gives the memory of its outputs."""
    changed: dict[str, Any] = {"indices": [], "check_overlap": False, "watch": None}
    if options.outputs == "kept":
        changed["finish"] = finisher(captured.outputs, "view", guarded)
        changed["fixed"] = fixed_outputs(captured.outputs)
    return replace(captured, **changed).run


class Pinned:
    """One captured key as a function of its copied inputs."""

    def __init__(
        self, executable: Executable, captured: Captured, args: Sequence[Any], run: Callable[..., Any]
    ) -> None:
        self._executable = executable
        self._captured = captured
        self._args = list(args)
        self._run = run
        self._lock = executable.runtime.lock
        self._turn = executable.runtime.turn()
        self._places = [i for i, kind in enumerate(captured.kinds) if kind in COPIES]
        self._only = self._places[0] if len(self._places) == 1 else None

    @property
    def places(self) -> tuple[int, ...]:
        """Which arguments of the executable are passed, in their order."""
        return tuple(self._places)

    def __call__(self, *inputs: Any) -> Any:
        """Copies the inputs, replays, and returns the outputs."""
        if len(inputs) != len(self._places):
            raise InputRefused(
                f"the pinned call of {self._executable.name} takes {len(self._places)} inputs, got {len(inputs)}",
                advice="pass the copied inputs only, in their order; explain() lists them",
            )
        with self._lock:
            if not self._executable.holds(self._captured):
                raise Closed(
                    f"the key {self._captured.key} of {self._executable.name} was captured again, dropped or closed",
                    advice="call pin() again",
                )
            turn = self._turn
            args = self._args if turn is None or not turn[0] else self._args.copy()
            if self._only is not None:
                args[self._only] = inputs[0]
            else:
                for place, value in zip(self._places, inputs, strict=True):
                    args[place] = value
            try:
                outputs = without_modes(self._run, args)
            except Exception:
                self._refuse_without_memory(inputs)
                raise
            return without_modes(self._executable.beside, args) if outputs is None else outputs

    def _refuse_without_memory(self, inputs: Sequence[Any]) -> None:
        for place, value in zip(self._places, inputs, strict=True):
            if (what := why_without_memory(value)) is not None:
                name = self._executable.slots[place].name
                raise InputRefused(
                    f"a pinned call copies its inputs, and input {name!r} is {what}, from which nothing is copied",
                    advice="pass a tensor with values; call the compiled function itself for other tensors",
                    input=name,
                ) from None
