"""The judge: runs a program in every schedule its streams and events allow, and compares with eager order.

It knows nothing of clocks or happens-before. A state is how far each stream has come and which write each cell
saw last; all reachable states are visited once.
"""

from __future__ import annotations

from collections.abc import Sequence

from streams_programs import STORAGE_SIZE, Op

Cells = tuple[int, ...]


def _cells(op: Op, storages: int, per_storage: int) -> tuple[list[int], list[int]]:
    """The cells an operation reads and writes. Cells are whole storages, or elements."""
    low, high = (op.low, op.high) if op.high and per_storage > 1 else (0, per_storage)
    touched = [op.target * per_storage + cell for cell in range(low, high)]
    match op.kind:
        case "read":
            return touched, []
        case "write":
            return [], touched
        case "update":
            return touched, touched
        case "move":
            return touched, [op.other * per_storage + cell for cell in range(per_storage)]
        case _:
            return [], []


def is_correct(program: Sequence[Op], storages: int, *, elements: bool = False) -> bool:
    """Whether in every schedule each read sees the write it sees in eager order, and the last writes are equal."""
    per_storage = STORAGE_SIZE if elements else 1
    touches = [_cells(op, storages, per_storage) for op in program]
    expected, final = _eager(touches, storages * per_storage)
    queues: dict[int, list[int]] = {}
    for number, op in enumerate(program):
        queues.setdefault(op.stream, []).append(number)
    order = list(queues.values())
    where = {number: (lane, place) for lane, queue in enumerate(order) for place, number in enumerate(queue)}
    needs = _needs(program)

    start = ((0,) * len(order), (-1,) * (storages * per_storage))
    seen = {start}
    stack = [start]
    while stack:
        done, cells = stack.pop()
        lanes = [lane for lane, queue in enumerate(order) if done[lane] < len(queue)]
        if not lanes and cells != final:
            return False
        for lane in lanes:
            number = order[lane][done[lane]]
            if number in needs and done[where[needs[number]][0]] <= where[needs[number]][1]:
                continue
            reads, writes = touches[number]
            if [cells[cell] for cell in reads] != expected[number]:
                return False
            after = tuple(number if cell in writes else write for cell, write in enumerate(cells))
            state = ((*done[:lane], done[lane] + 1, *done[lane + 1 :]), after)
            if state not in seen:
                seen.add(state)
                stack.append(state)
    return True


def _eager(touches: Sequence[tuple[list[int], list[int]]], cells: int) -> tuple[list[list[int]], Cells]:
    last = [-1] * cells
    expected = []
    for number, (reads, writes) in enumerate(touches):
        expected.append([last[cell] for cell in reads])
        for cell in writes:
            last[cell] = number
    return expected, tuple(last)


def _needs(program: Sequence[Op]) -> dict[int, int]:
    """For each wait, the latest record of its event issued before it; a wait with none waits for nothing."""
    last: dict[int, int] = {}
    needs: dict[int, int] = {}
    for number, op in enumerate(program):
        if op.kind == "record":
            last[op.target] = number
        elif op.kind == "wait" and op.target in last:
            needs[number] = last[op.target]
    return needs
