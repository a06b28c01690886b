"""Writes the tasks of a recording as one straight function without arguments.

    def replay():
        f0(t0, t1, out=t2)
        f3(t2, 0, t4, out=t5)

Every tensor is a name of the function's globals.  A call that cannot write into given memory is followed by
the copy of its results.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from air_aclgraph._memory import has_gaps, place_in_storage, tensors_of, whole
from air_aclgraph.host._bindings import fastest
from air_aclgraph.host._recorder import Record, Task, Wait
from air_aclgraph.host._stand_ins import Block
from air_graph import storage_of
from air_graph.writing import Writer


def straight_replay(tasks: Sequence[Task]) -> Callable[[], None]:
    """Compiles the tasks into one function that repeats them in order."""
    writer = Writer()
    for task in tasks:
        writer.line(_line(task, writer))
    return writer.function("replay")[0]


def _line(task: Task, writer: Writer) -> str:
    call = writer.call(writer.bind(fastest(task), "f"), task.args, task.kwargs)
    if task.landing is not None:
        return f"{writer.bind(task.landing.into(task.into), 'm')}({call})"
    if not task.into:
        return call
    assert isinstance(task.overload, OpOverload)
    returns = task.overload._schema.returns
    if len(returns) == 1 and str(returns[0].type) == "Tensor" and not has_gaps(task.into[0]):
        return f"{writer.text(task.into[0])}.copy_({call})"
    return f"{writer.bind(_store(task), 'm')}({call})"


def keep_what_is_read(
    steps: Sequence[Task | Record | Wait], blocks: Mapping[int, Block], held: set[int]
) -> None:
    """Results that no later task reads and nobody is given need no copy: the mean in a norm that is not trained."""
    for index, task in enumerate(steps):
        if not isinstance(task, Task) or not task.positions:
            continue
        results = [
            (position, target)
            for position, target in zip(task.positions, task.into, strict=True)
            if storage_of(target) in held or _is_read(blocks.get(storage_of(target)), index)
        ]
        task.positions, task.into = (
            tuple(position for position, _ in results),
            tuple(target for _, target in results),
        )


def _is_read(block: Block | None, made: int) -> bool:
    """Whether a task after that which made a block looks at it."""
    return block is None or block.last > made


def _store(task: Task) -> Callable[[Any], None]:
    """Copies the fresh results of a call into the memory they took when it was recorded."""
    copies = [
        (position, _copy_into(target)) for position, target in zip(task.positions, task.into, strict=True)
    ]

    def store(results: Any) -> None:
        made = list(tensors_of(results))
        for position, copy in copies:
            copy(made[position])

    def store_flat(results: Sequence[Any]) -> None:
        made = [result for result in results if result is not None]  # what a mask leaves out
        for position, copy in copies:
            copy(made[position])

    assert isinstance(task.overload, OpOverload)
    returns = task.overload._schema.returns
    flat = len(returns) > 1 and all(str(each.type) == "Tensor" for each in returns)
    return store_flat if flat else store


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
    chance, ready, order = random.Random(seed), list[int](), list[Task]()
    sorter = TopologicalSorter(after)
    sorter.prepare()
    while sorter.is_active():
        ready.extend(sorter.get_ready())
        index = ready.pop(chance.randrange(len(ready)))
        step = steps[index]
        if isinstance(step, Task):
            order.append(step)
        sorter.done(index)
    return order
