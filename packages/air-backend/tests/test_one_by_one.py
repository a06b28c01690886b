"""Operators on lists, in place, whose tensors lie over one another have eager's numbers.

On the CPU, where eager works through the lists; kernels of devices take all elements at once, in no order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
import torch
from torch import Tensor

MODES = ("reduce-overhead", "max-autotune")
Lists = Sequence[list[Tensor]]
CALLS: Final[Sequence[Callable[[Lists], Any]]] = (
    lambda lists: torch._foreach_mul_(lists[0], 2.0),
    lambda lists: torch._foreach_mul_(lists[0], [1.0 + at for at in range(len(lists[0]))]),
    lambda lists: torch._foreach_mul_(lists[0], lists[1]),
    lambda lists: torch._foreach_mul_(lists[0], lists[1][0].sum()),
    lambda lists: torch._foreach_add_(lists[0], lists[1]),
    lambda lists: torch._foreach_add_(lists[0], lists[1], alpha=0.5),
    lambda lists: torch._foreach_addcmul_(lists[0], lists[1], lists[2], value=0.25),
    lambda lists: torch._foreach_copy_(lists[0], lists[1]),
    lambda lists: torch._foreach_abs_(lists[0]),
    lambda lists: torch._foreach_clamp_max_(lists[0], 3.0),
)
"""Without `lerp`, which Dynamo writes with others that read everything first."""


def drawn(seed: int) -> tuple[Callable[..., Tensor], Callable[[], tuple[list[Tensor], list[Tensor]]]]:
    """A program, and what makes its arguments: windows of two tensors, and these."""
    rng = random.Random(seed)
    known, length = rng.randint(2, 6), rng.randint(1, 4)
    steps = [
        (rng.choice(CALLS), [[rng.randrange(known) for _ in range(length)] for _ in range(3)])
        for _ in range(rng.randint(1, 3))
    ]
    windows = [(rng.randrange(2), 4 * rng.randrange(4)) for _ in range(known)]

    def program(*given: Tensor) -> Tensor:
        for call, lists in steps:
            call([[given[at] for at in each] for each in lists])
        return given[0] * 2

    def arguments() -> tuple[list[Tensor], list[Tensor]]:
        whole = [torch.arange(16.0) / 8 + at for at in range(2)]
        return [whole[which][start : start + 4] for which, start in windows], whole

    return program, arguments


@pytest.mark.parametrize("mode", MODES)
def test_drawn_calls_on_lists_have_eagers_numbers(mode: str) -> None:
    for seed in range(25):
        torch._dynamo.reset()
        program, arguments = drawn(seed)
        run = torch.compile(program, backend="air", options={"mode": mode})
        for _ in range(2):
            (mine, written), (theirs, expected) = arguments(), arguments()
            with torch.no_grad():
                torch.testing.assert_close(run(*mine), program(*theirs), msg=f"seed {seed}: {{}}".format)
            torch.testing.assert_close(written, expected, msg=f"seed {seed}: {{}}".format)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_that_are_given_twice_are_scaled_twice_as_eager_does(mode: str) -> None:
    def clipped(parameters: list[Tensor]) -> Any:
        return torch.nn.utils.clip_grad_norm_(parameters, 0.5, foreach=True)

    torch._dynamo.reset()
    tied = [torch.nn.Parameter(torch.ones(4)) for _ in range(2)]
    for parameter in tied:
        parameter.grad = torch.arange(4.0)
    run = torch.compile(clipped, backend="air", options={"mode": mode})
    torch.testing.assert_close(run([tied[0], tied[0]]), clipped([tied[1], tied[1]]))
    torch.testing.assert_close(tied[0].grad, tied[1].grad)


def test_a_call_whose_tensors_lie_apart_stays_one() -> None:
    from torch._dynamo.testing import EagerAndRecordGraphs

    from air_backend._one_by_one import call_one_by_one

    def program(x: Tensor, y: Tensor) -> None:
        torch._foreach_mul_([x, y], 2.0)
        torch._foreach_add_([x, y], [x, y])

    torch._dynamo.reset()
    seen = EagerAndRecordGraphs()
    torch.compile(program, backend=seen)(torch.ones(2), torch.ones(2))
    (gm,) = seen.graphs
    before = str(gm.graph)
    call_one_by_one(gm)
    assert str(gm.graph) == before
