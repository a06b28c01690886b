"""What a replay on the host does besides the kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from air_aclgraph import HostRuntime, Request

_norm = torch.ops.aten.native_layer_norm.default


class Copies(TorchDispatchMode):
    """Counts the copies of what runs inside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it unannotated
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten.copy_.default
        return func(*args, **(kwargs or {}))


def copies_of(body: Callable[..., Any], *, shared: bool = False) -> tuple[int, tuple[Tensor, ...]]:
    """How many copies a replay makes, and its outputs."""
    x = torch.randn(3, 4)
    recording = HostRuntime().record(body, (x,), Request(share_outputs=shared))
    x.copy_(torch.randn(3, 4))
    with Copies() as copies:
        recording.replay()
    for output, expected in zip(recording.outputs, body(x), strict=True):
        torch.testing.assert_close(output, expected)
    return copies.count, recording.outputs


def test_results_that_nobody_reads_are_not_copied_in_a_replay() -> None:
    assert copies_of(lambda x: (_norm(x, [4], None, None, 1e-5)[0],))[0] == 1
    assert copies_of(lambda x: (_norm(x, [4], None, None, 1e-5)[0] + 1,))[0] == 1


def test_results_that_a_later_operator_reads_or_that_are_given_back_are_copied() -> None:
    assert copies_of(lambda x: (_norm(x, [4], None, None, 1e-5)[1].add_(1),))[0] == 1
    assert copies_of(lambda x: _norm(x, [4], None, None, 1e-5)[:2])[0] == 2
    assert copies_of(lambda x: _norm(x, [4], None, None, 1e-5)[:2], shared=True)[0] == 2


def test_results_that_a_mask_leaves_out_take_no_place() -> None:
    backward = torch.ops.aten.native_layer_norm_backward.default

    def body(x: Tensor) -> tuple[Tensor, ...]:
        y, mean, rstd = _norm(x, [4], None, None, 1e-5)
        weight, bias = torch.ones(4), torch.zeros(4)
        return (y, backward(x * 2, x, [4], mean, rstd, weight, bias, [True, False, True])[2])

    copies_of(body)
