"""The call of a key as one builtin, for the calls that find everything as it was.

`_captured` writes what a call does as a function in Python.  The same steps in C++ touch fewer objects, and after
Dynamo's guards every object comes from far away: that is two of the eighty microseconds of a call with 288 parameters.
The builtin only knows the steps of most graphs.  Whatever a test finds changed it leaves to the function in Python, and
a graph that needs anything else has that function alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._dynamo.utils import counters
from torch.autograd import profiler

from air_aclgraph import native
from air_aclgraph._copies import batched
from air_aclgraph._kept import Loan, owners, references
from air_aclgraph._outputs import Constant, Output, OwnMemory, SameInput, clones_alike
from air_aclgraph._slots import Kind
from air_graph import by_storage

if TYPE_CHECKING:
    from air_aclgraph._captured import Captured, Run


def in_one_builtin(captured: Captured, careful: Run) -> Run:
    """`careful` as a builtin where all that a call of this key does is known to it."""
    entry = native.data_ptr_entry()
    if entry is None or not _is_known(captured):
        return careful
    make = native.builtin("air_replay", ctypes.c_void_p, ctypes.py_object)
    if make is None:
        return careful
    probe = torch.empty(1)  # alive as long as its storage is looked at
    run: Run = make(
        entry,
        (
            _objects(captured, careful),
            tuple(map(_loan, captured.loans or ())),
            captured.to_copy,
            tuple(counted(captured).items()),
            tuple(_output(output, at in captured.copied_out) for at, output in enumerate(captured.outputs)),
            (probe.untyped_storage(),),
        ),
    )
    return run


def counted(captured: Captured) -> dict[str, int]:
    """What a replay adds to Dynamo's counters."""
    sums = {"replays": 1}
    if copied := captured.copied:
        sums |= {"copies": len(copied), "copied_bytes": sum(t.nbytes for t in copied)}
    return sums


def _is_known(captured: Captured) -> bool:
    """Whether a call has the steps that the builtin has, and no others."""
    others = (captured.settled, captured.watch, captured.others)
    extra = captured.before_replay or captured.check_overlap or captured.in_flight
    plain_steps = not extra and all(o is None for o in others)
    replayed = captured.recording.replay_with is None or captured.values is None
    return plain_steps and replayed and _outputs_are_known(captured) and _copies_are_known(captured)


def _outputs_are_known(captured: Captured) -> bool:
    own = [output.tensor if isinstance(output, OwnMemory) else None for output in captured.outputs]
    known = all(isinstance(output, (OwnMemory, Constant, SameInput)) for output in captured.outputs)
    copied = (own[place] for place in captured.copied_out)
    plain = all(tensor is not None and clones_alike(tensor) for tensor in copied)
    return captured.loans is not None and known and plain and all(len(one) == 1 for one in by_storage(own))


def _copies_are_known(captured: Captured) -> bool:
    """Whether one function copies all that is copied, and nothing is taken back."""
    return Kind.CARRIED not in captured.kinds and not captured.to_copy_alone


def _objects(captured: Captured, careful: Run) -> tuple[Any, ...]:
    """The objects of `replay.cpp`, in its order."""
    ready, buffers = captured.ready, [captured.inputs[index] for index in captured.to_copy]
    tested = [captured.inputs[index] for index in captured.indices]
    return (
        careful,
        _raising(captured.recording.explain_error),
        vars(profiler),
        "_is_profiler_enabled",
        captured.turn,
        None if ready is None else ready.current,
        None if ready is None else ready.last,
        captured.tests(captured.indices, tested) if tested else None,
        owners,
        references,
        (captured.copies or batched)(buffers) if buffers else None,
        captured.recording.replay,
        captured.count,
        counters,
        "air",
        "data",
    )


def _loan(loan: Loan) -> tuple[Any, ...]:
    return loan.storage, loan.owners, loan.cell, loan.tensor, loan.pointer


def _output(output: Output, copied: bool) -> tuple[Tensor | None, object, int]:
    if isinstance(output, OwnMemory) and copied:
        return None, output.tensor.clone, -2
    if isinstance(output, OwnMemory):
        return output.tensor, None, -1
    if isinstance(output, SameInput):
        return None, None, output.index
    assert isinstance(output, Constant), "the others are not known here"
    return None, output.value, -1


def _raising(explain: Callable[[RuntimeError], RuntimeError] | None) -> Callable[[BaseException], Any]:
    """What an error of a call is raised with."""

    def failed(error: BaseException) -> Any:
        try:
            raise error
        except RuntimeError as of_the_device:
            if explain is None:
                raise
            raise explain(of_the_device)  # noqa: B904  # `explain` may give the same error back

    return failed
