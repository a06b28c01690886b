"""Writes the tasks of a recording as one straight function without arguments.

    def replay():
        f0(t0, t1, out=t2)
        f3(t2, 0, t4, out=t5)

Every tensor is a name of the function's globals.  A call that cannot write into given memory is followed by
the copy of its results.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from torch import Tensor
from torch._ops import OpOverload

from air_aclgraph._memory import has_gaps, place_in_storage, tensors_of, whole
from air_aclgraph.host._bindings import fastest
from air_aclgraph.host._recorder import Record, Task, Wait

_COUNTER: Final = itertools.count()
_LITERALS: Final = (bool, int, str, type(None))


class _Names:
    def __init__(self) -> None:
        self.scope: dict[str, object] = {}
        self._known: dict[int, str] = {}

    def of(self, value: object, prefix: str) -> str:
        name = self._known.get(id(value))
        if name is None:
            name = f"{prefix}{len(self.scope)}"
            self.scope[name] = value
            self._known[id(value)] = name
        return name

    def text(self, value: object) -> str:
        if type(value) in _LITERALS:
            return repr(value)
        if type(value) is list:
            return "[" + ", ".join(map(self.text, value)) + "]"
        return self.of(value, "t" if isinstance(value, Tensor) else "c")


def straight_replay(tasks: Sequence[Task]) -> Callable[[], None]:
    """Compiles the tasks into one function that repeats them in order."""
    names = _Names()
    lines = ["def replay():"]
    for task in tasks:
        lines.extend("    " + line for line in _lines(task, names))
    if len(lines) == 1:
        lines.append("    pass")
    code = compile("\n".join(lines) + "\n", f"<air replay {next(_COUNTER)}>", "exec")
    exec(code, names.scope)
    replay: Any = names.scope["replay"]
    function: Callable[[], None] = replay
    return function


def _lines(task: Task, names: _Names) -> list[str]:
    parts = [names.text(arg) for arg in task.args]
    parts += [f"**{{{key!r}: {names.text(value)}}}" if key == "from" else f"{key}={names.text(value)}"
              for key, value in task.kwargs.items()]  # fmt: skip
    call = f"{names.of(fastest(task), 'f')}({', '.join(parts)})"
    if task.landing is not None:
        return [f"{names.of(task.landing.into(task.into), 'm')}({call})"]
    if not task.into:
        return [call]
    assert isinstance(task.overload, OpOverload)
    returns = task.overload._schema.returns
    if len(returns) == 1 and str(returns[0].type) == "Tensor" and not has_gaps(task.into[0]):
        return [f"{names.text(task.into[0])}.copy_({call})"]
    return [f"{names.of(_store(task), 'm')}({call})"]


def _store(task: Task) -> Callable[[Any], None]:
    """Copies the fresh results of a call into the memory they took when it was recorded."""
    copies = [
        (position, _copy_into(target)) for position, target in zip(task.positions, task.into, strict=True)
    ]

    def store(results: Any) -> None:
        made = list(tensors_of(results))
        for position, copy in copies:
            copy(made[position])

    return store


def _copy_into(target: Tensor) -> Callable[[Tensor], object]:
    """Copies a result, with what lies between its elements where something does: `slice_scatter` keeps that."""
    if not has_gaps(target):
        return target.copy_

    def copy(result: Tensor) -> None:
        if place_in_storage(result) == place_in_storage(target) and result.stride() == target.stride():
            whole(target).copy_(whole(result))
        else:
            target.copy_(result)

    return copy


def legal_order(steps: Sequence[Task | Record | Wait], seed: int) -> list[Task]:
    """A random order of the tasks that the streams and events of the recording allow."""
    after: dict[int, set[int]] = {index: set() for index in range(len(steps))}
    tail: dict[int, int] = {}
    events: dict[int, int] = {}
    for index, step in enumerate(steps):
        if step.stream in tail:
            after[index].add(tail[step.stream])
        tail[step.stream] = index
        if isinstance(step, Record):
            events[step.event] = index
        elif isinstance(step, Wait) and step.event in events:
            after[index].add(events[step.event])
    return _random_topological(steps, after, random.Random(seed))


def _random_topological(
    steps: Sequence[Task | Record | Wait], after: dict[int, set[int]], chance: random.Random
) -> list[Task]:
    followers: dict[int, list[int]] = {index: [] for index in after}
    missing = {index: len(before) for index, before in after.items()}
    for index, before in after.items():
        for earlier in before:
            followers[earlier].append(index)
    ready = [index for index, count in missing.items() if not count]
    order: list[Task] = []
    while ready:
        index = ready.pop(chance.randrange(len(ready)))
        step = steps[index]
        if isinstance(step, Task):
            order.append(step)
        for follower in followers[index]:
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
    return order
