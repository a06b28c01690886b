"""Operators that write on the device what their schema says they read: readers and callers see it, as in eager."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from air_graph.testing.strictness import results_that_are_arguments

pytestmark = [
    pytest.mark.npu("the operators are torch_npu's"),
    pytest.mark.skipif("torch_npu" not in sys.modules, reason="torch_npu is not loaded"),
    pytest.mark.filterwarnings("ignore"),
]


def turned(*given: Tensor) -> tuple[Tensor, Tensor]:
    results: tuple[Tensor, Tensor] = torch.ops.npu.npu_apply_rotary_pos_emb(*given)
    return results


def results_that_nobody_uses(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Sequence[Tensor]:
    turned(q, k, cos, sin)
    return q * 2, k + 1


def arguments_that_are_read_later(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Sequence[Tensor]:
    q, k = q * 1.5, k + 1
    a, b = turned(q, k, cos, sin)
    return q * 2, a, b, k


def a_view_from_before(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Sequence[Tensor]:
    before = q.transpose(1, 2)
    a, b = turned(q, k, cos, sin)
    return before + 1, a - b.sum()


def an_argument_that_is_a_view(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Sequence[Tensor]:
    q = q.transpose(1, 2).contiguous().transpose(1, 2)
    a, b = turned(q, k, cos, sin)
    return q, a * b


def inside_a_checkpoint(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> Sequence[Tensor]:
    def step(q: Tensor, k: Tensor) -> Sequence[Tensor]:
        return results_that_nobody_uses(q * 1, k * 1, cos, sin)

    found: Sequence[Tensor] = torch.utils.checkpoint.checkpoint(step, q, k, use_reentrant=False)
    return found


FUNCTIONS = (
    results_that_nobody_uses,
    arguments_that_are_read_later,
    a_view_from_before,
    an_argument_that_is_a_view,
    inside_a_checkpoint,
)


def drawn() -> list[Tensor]:
    torch.manual_seed(0)
    sizes = ((2, 3, 4, 128), *[(2, 3, 1, 128)] * 3)
    return [torch.randn(size).to("npu") for size in sizes]


@pytest.fixture(autouse=True)
def strict_about_results() -> Iterator[None]:
    with results_that_are_arguments(refused=True):
        yield


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_rotary_positions_in_place_are_seen_by_all_who_read_them(
    function: Callable[..., Any], mode: str
) -> None:
    eager = drawn()
    wanted = function(*eager)
    torch._dynamo.reset()
    step = torch.compile(function, backend="air", options={"mode": mode})
    for _ in range(3):
        given = drawn()
        for mine, theirs in zip(step(*given), wanted, strict=True):
            torch.testing.assert_close(mine.cpu(), theirs.cpu())
        for mine, theirs in zip(given, eager, strict=True):
            torch.testing.assert_close(mine.cpu(), theirs.cpu())
