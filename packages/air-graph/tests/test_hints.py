"""Numbers behind symbolic sizes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import bytes_of, hint_of


def doubled(x: Tensor) -> Tensor:
    return x.repeat(2, 1)


def test_a_symbol_has_the_number_that_it_was_traced_with() -> None:
    gm = make_fx(doubled, tracing_mode="symbolic")(torch.ones(3, 5))
    (result,) = gm.graph.output_node().all_input_nodes
    value = result.meta["val"]
    assert [hint_of(size) for size in (*value.shape, 7)] == [6, 5, 7]
    assert bytes_of(value) == 6 * 5 * 4


def test_a_size_that_only_a_run_tells_has_no_number_and_counts_once() -> None:
    gm = make_fx(lambda x: x.nonzero(), tracing_mode="symbolic")(torch.ones(3, 5))
    (result,) = gm.graph.output_node().all_input_nodes
    assert hint_of(result.meta["val"].shape[0]) is None
    assert bytes_of(result.meta["val"]) == 2 * 8
