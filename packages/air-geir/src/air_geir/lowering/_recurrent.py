"""One layer of an LSTM, which torch traces on the CPU as one operator of oneDNN, and on a device step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch._decomp.decompositions import one_layer_lstm

_LSTM: Final = 2
"""The `mode` of oneDNN's that is an LSTM, the only one that torch traces."""


def _layer(
    input: Tensor, weight0: Tensor, weight1: Tensor, weight2: Tensor, weight3: Tensor, hx_: Tensor, cx_: Tensor,
    reverse: bool, batch_sizes: Sequence[int], mode: int, hidden_size: int, num_layers: int, has_biases: bool,
    bidirectional: bool, batch_first: bool, train: bool,
) -> Any:  # fmt: skip
    """mkldnn_rnn_layer: as torch writes it where oneDNN is off. Nobody but oneDNN's gradient reads the workspace."""
    if mode != _LSTM or num_layers != 1 or bidirectional or batch_first or train or batch_sizes:
        return NotImplemented
    if type(input.shape[0]) is not int:
        raise NotImplementedError("each step is in the graph, and the number of steps varies")
    weights = [weight0, weight1, *([weight2, weight3] if has_biases else [])]
    hidden = (hx_.squeeze(0), cx_.squeeze(0))
    steps, (last, cell) = one_layer_lstm(input, hidden, weights, has_biases, reverse)
    return steps, last.unsqueeze(0), cell.unsqueeze(0), None


RECURRENT: Final[Mapping[object, Callable[..., Any]]] = (
    {torch.ops.aten.mkldnn_rnn_layer.default: _layer} if hasattr(torch.ops.aten, "mkldnn_rnn_layer") else {}
)
