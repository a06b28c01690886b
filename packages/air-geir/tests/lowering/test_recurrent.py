"""A layer of an LSTM on the CPU is in the graph, step by step, and is that of torch's kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from air_geir.proof import check_call


def layer(x: Tensor, weights: Sequence[Tensor], h: Tensor, c: Tensor, *, reverse: bool, biases: bool) -> Any:
    """As torch calls it, for one direction of one layer."""
    of_onednn = torch.ops.aten.mkldnn_rnn_layer
    return of_onednn(x, *weights, h, c, reverse, [], 2, h.shape[-1], 1, biases, False, False, False)


def given(steps: int, biases: bool) -> tuple[Tensor, list[Tensor], Tensor, Tensor]:
    torch.manual_seed(0)
    weights = [torch.randn(16, 3), torch.randn(16, 4)]
    more = [torch.randn(16), torch.randn(16)] if biases else [torch.zeros(16, 3), torch.zeros(16, 4)]
    return torch.randn(steps, 2, 3), [*weights, *more], torch.randn(1, 2, 4), torch.randn(1, 2, 4)


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_N03_a_layer_gives_what_the_kernel_gives(reverse: bool, biases: bool) -> None:
    check_call(lambda *args: layer(*args, reverse=reverse, biases=biases)[:3], given(5, biases), {})
