"""A run that is recorded gives memory back as it lets go of tensors, and the recording repeats it all the same."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from air_aclgraph import HostRuntime, Request
from air_aclgraph.host._recorder import Recorder
from air_aclgraph.host._stand_ins import Block, StandIns
from air_graph import storage_of

MEGABYTE = 1 << 20


class _Watched(Recorder):
    """Notes how much memory the blocks of the run have after each operator."""

    most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        self.most = max(self.most, sum(block.storage.nbytes() for block in self.blocks.values()))
        return result


def recorded(function: Callable[..., Any], *inputs: Tensor) -> tuple[_Watched, Any]:
    recorder = _Watched(inputs)
    with torch.no_grad(), recorder:
        result = function(*inputs)
    return recorder, result


def layers(x: Tensor) -> Tensor:
    for number in range(20):
        x = (x * 2).view(-1).sin().view(x.shape) + number
    return x


def test_a_long_run_needs_no_more_than_what_is_alive() -> None:
    x = torch.rand(MEGABYTE // 4)
    recorder, _ = recorded(layers, x)
    assert len(recorder.blocks) == 60
    assert recorder.most <= 3 * MEGABYTE
    assert sum(block.nbytes for block in recorder.blocks.values()) == 60 * MEGABYTE


def test_what_somebody_holds_keeps_its_memory() -> None:
    held: list[Tensor] = []

    def function(x: Tensor) -> Tensor:
        held.append((x * 2)[1:])
        return (x * 3).sum()

    x = torch.rand(16)
    recorded(function, x)
    gc.collect()
    assert torch.equal(held[0], (x * 2)[1:])


def test_memory_that_is_held_without_a_tensor_of_the_run_is_not_taken_away() -> None:
    aliases: list[Tensor] = []

    def function(x: Tensor) -> Tensor:
        y = x * 2
        with _disable_current_modes():
            aliases.append(torch.empty(0).set_(y.untyped_storage(), 0, (16,), (1,)))
        return x + 1

    x = torch.rand(16)
    recorded(function, x)
    assert torch.equal(aliases[0], x * 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (torch.arange(4.0) * 2 + 1) * x + torch.ones(4).cumsum(0),
        lambda x: (x * 2).unsqueeze_(0).squeeze_(0).add_(1).sin(),
        lambda x: torch.stack([x + n for n in range(3)]).t()[1:].contiguous().flatten(),
        lambda x: torch.nn.functional.cosine_similarity(x.view(2, 2), (x + 1).view(2, 2)),
    ],
    ids=["constants", "changed shapes", "views", "composites"],
)
def test_a_recording_repeats_what_was_let_go_of(function: Callable[[Tensor], Tensor]) -> None:
    from aclgraph_backend import Backend

    run = torch.compile(function, backend=Backend(), dynamic=False)
    for seed in range(4):
        x = torch.randn(4, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(run(x), function(x))


def test_tasks_keep_the_shape_that_a_view_of_an_input_had_before_it_was_turned() -> None:
    def body(x: Tensor) -> tuple[Tensor, ...]:
        view = x.t()
        before = view.cumsum(0)
        view.unsqueeze_(0)
        return before, view * 2

    x = torch.rand(2, 3)
    recording = HostRuntime().record(body, (x,), Request())
    outputs = recording.outputs
    for _ in range(2):
        x.uniform_()
        recording.replay()
        for found, expected in zip(outputs, (x.t().cumsum(0), x.t()[None] * 2), strict=True):
            torch.testing.assert_close(found, expected)


def test_what_an_interrupt_left_of_a_tensor_is_not_taken_for_another_one() -> None:
    """Another tensor can have its number, and an interrupt can end what notes that it is gone."""
    memory = torch.arange(4.0)
    block = Block(memory.untyped_storage(), 0, 0)
    stand_ins = StandIns({storage_of(memory): block})
    front, back = memory[:2], memory[2:]
    assert stand_ins.of(front).tolist() == [0, 1]
    stand_ins._watched[id(back)] = stand_ins._watched[id(front)]
    stand_ins._now[id(back)] = stand_ins._now[id(front)]
    assert stand_ins.of(back).tolist() == [2, 3]
    assert stand_ins.of(front).tolist() == [0, 1]
