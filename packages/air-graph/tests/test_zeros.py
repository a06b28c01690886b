"""Zeros that have no memory become zeros that have some."""

from __future__ import annotations

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import mend_zeros


def test_zeros_without_memory_become_zeros_with_memory() -> None:
    gm = make_fx(lambda x: (x + 1, torch._efficientzerotensor((2, 3))), tracing_mode="fake")(torch.ones(2))
    assert mend_zeros(gm)
    _, zeros = gm(torch.ones(2))
    assert not zeros._is_zerotensor()
    assert torch.equal(zeros, torch.zeros(2, 3))
    assert not any(node.meta["val"]._is_zerotensor() for node in gm.graph.nodes if "val" in node.meta)


def test_a_graph_without_them_stays_as_it_is() -> None:
    gm = make_fx(lambda x: x + 1, tracing_mode="fake")(torch.ones(2))
    code = gm.code
    assert not mend_zeros(gm)
    assert gm.code == code
