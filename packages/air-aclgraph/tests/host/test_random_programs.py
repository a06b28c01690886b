"""Random programs of views, writes, as_strided, `out=`, random numbers and branches: every replay equals eager."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule

from aclgraph_backend import settings, unpadded
from air_aclgraph import Executable, HostRuntime
from air_aclgraph.errors import IllegalDuringCapture
from air_fxpasses.testing import copied, run_graph
from random_programs import IMPERATIVE, Builder, Instruction, Slot, build_program

aten = torch.ops.aten

PROGRAMS = 200
LONG_RUN = 5000
CALLS = 4


def windows(b: Builder) -> None:
    """Windows counted from the start of a storage, as views, as copies and as places to write."""
    slot = b.tensor()
    length = slot.value.untyped_storage().nbytes() // max(1, slot.value.itemsize)
    if length < 4:
        return
    size, stride = b.one_of((([2, 2], [1, 1]), ([2, 2], [2, 1]), ([3], [1]), ([2], [2])))
    offset = b.one_of((None, b.draw(length - 3), b.draw(length - 3)))
    which = b.draw(4)
    if which == 0:
        b.call(aten.as_strided_copy.default, slot, size, stride, offset)
        return
    window = b.call(aten.as_strided.default, slot, size, stride, offset)
    if window is not None and which == 1:
        b.call(aten.mul_.Tensor, window, 2)
    elif window is not None and which == 2:
        b.call(aten.add.Tensor, window, 1)


def turned_in_place(b: Builder) -> None:
    slot = b.tensor()
    if any(slot.value is value for value in b.live_inputs):
        return  # refused
    which = b.draw(4)
    if which == 0:
        b.call(aten.unsqueeze_.default, slot, b.draw(2))
    elif which == 1:
        b.call(aten.squeeze_.default, slot)
    elif which == 2:
        b.call(aten.t_.default, slot)
    else:
        b.call(aten.transpose_.default, slot, 0, -1)


def other_numbers(b: Builder) -> None:
    slot = b.tensor()
    b.call(aten.view.dtype, slot, b.one_of((torch.int32, torch.uint8, torch.float32, torch.int64)))


def written_out(b: Builder) -> None:
    first = b.tensor()
    second = b.like(first)
    grows = (
        second is not None and second.value.is_contiguous() and first.value.is_contiguous() and not b.draw(3)
    )
    out = b.call(aten.empty.memory_format, [0], dtype=first.value.dtype) if grows else b.like(first)
    if grows:
        b.pool.pop()  # what grows is looked at by nobody before
    b.call(aten.add.out, first, second, out=out)


def drawn(b: Builder) -> None:
    slot = b.tensor()
    which = b.draw(4)
    if which == 0:
        b.call(aten.rand_like.default, slot)
    elif which == 1:
        b.call(aten.native_dropout.default, slot, 0.5, True)
    elif which == 2:
        b.call(aten.bernoulli_.float, slot, 0.5)
    else:
        b.call(aten.uniform_.default, slot, 1.0, 2.0)


def conjugated(b: Builder) -> None:
    slot: Slot | None = b.tensor()
    if slot is not None and not slot.value.is_complex():
        slot = b.call(aten._to_copy.default, slot, dtype=torch.complex64)
    turned = None if slot is None else b.call(aten._conj.default, slot)
    if turned is not None and b.draw(2):
        b.call(b.one_of((aten.mul.Tensor, aten.add_.Tensor)), turned, slot)
    elif turned is not None:
        b.call(aten.view_as_real.default, b.call(aten._conj_physical.default, turned))


def chosen(x: Tensor) -> Tensor:
    """A branch by the values that are there."""
    result: Tensor = torch.ops.higher_order.cond(
        (x.sum() > 0).view(()), lambda t: t + 1, lambda t: t * 2, (x,)
    )
    return result


def branch(b: Builder) -> None:
    slot = b.tensor()
    if not slot.value.is_complex() and slot.value.dtype != torch.bool:
        b.call(chosen, slot)


def foreach_in_place(b: Builder) -> None:
    first = b.tensor()
    b.call(aten._foreach_add_.Scalar, [first], 1)
    b.call(aten._foreach_mul_.List, [first], [b.like(first)])


INSTRUCTIONS: Final[tuple[Instruction, ...]] = (
    *IMPERATIVE, windows, windows, windows, turned_in_place, other_numbers, written_out, drawn, conjugated, branch,
    foreach_in_place,
)  # fmt: skip


def refilled(inputs: Sequence[Tensor], seed: int) -> list[Tensor]:
    """The same layouts with new values."""
    fresh = copied(inputs)
    for index, tensor in enumerate(fresh):
        bytes_of = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
        values = (torch.arange(bytes_of.numel()) * 7 + seed * 3 + index) % 11 - 5
        bytes_of.copy_(values)
    return fresh


def layout(tensor: Tensor) -> tuple[Any, ...]:
    return (
        tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.is_conj(),
        tensor.is_neg(),
    )  # fmt: skip


def shared(tensors: Sequence[Tensor]) -> list[int]:
    """For each tensor the first one with its memory."""
    storages = [t.untyped_storage()._cdata for t in tensors]
    return [storages.index(storage) for storage in storages]


def compare(gm: GraphModule, run: Executable, inputs: Sequence[Tensor], seed: int) -> str | None:
    """One call against eager: outputs, inputs afterwards, who shares memory, and the state of the generator."""
    given, twins = copied(inputs), copied(inputs)
    torch.manual_seed(seed)
    expected = run_graph(gm, given).outputs
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    found = run(*twins)
    if not torch.equal(state, torch.get_rng_state()):
        return "the random state differs"
    for index, (e, f) in enumerate(zip(expected, found, strict=True)):
        if layout(e) != layout(f):
            return f"output {index} lies as {layout(f)} instead of {layout(e)}"
        if not torch.allclose(e, f, rtol=0, atol=0, equal_nan=True):
            return f"output {index} is {f} instead of {e}"
    for index, (e, f) in enumerate(zip(given, twins, strict=True)):
        if layout(e) != layout(f) or not torch.equal(_bytes(e), _bytes(f)):
            return f"input {index} differs afterwards"
    if shared([*expected, *given]) != shared([*found, *twins]):
        return "other tensors share memory"
    return None


def _bytes(tensor: Tensor) -> Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


def check(number: int) -> str | None:
    """One program and its calls; says what differs."""
    chance = random.Random(number)
    program = build_program([chance.randrange(1 << 16) for _ in range(200)], INSTRUCTIONS)
    options = {"air__outputs": chance.choice(["view", "clone"])}
    runtime = HostRuntime(order=chance.choice(["program", "shuffled"]))
    run = unpadded(program.gm, program.inputs, settings=settings("cpu", **options), runtime=runtime)
    for call in range(CALLS):
        try:
            problem = compare(program.gm, run, refilled(program.inputs, call), call)
        except IllegalDuringCapture as refused:
            return f"program {number}, call {call}: refused after a replay: {refused}" if call else None
        if problem is not None:
            return f"program {number}, {options}, call {call}: {problem}\n{program.gm.graph}"
    return None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(0, PROGRAMS, 50))
def test_random_programs_equal_eager_at_every_call(first: int) -> None:
    for number in range(first, first + 50):
        problem = check(number)
        assert problem is None, problem


@pytest.mark.slow
@pytest.mark.parametrize("first", range(PROGRAMS, PROGRAMS + LONG_RUN, 500))
def test_thousands_of_random_programs_equal_eager_at_every_call(first: int) -> None:
    for number in range(first, first + 500):
        problem = check(number)
        assert problem is None, problem
