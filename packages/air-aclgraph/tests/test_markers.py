"""A marker of `air_streams.ops` is a name for the capture: on a device it is no work of the host that cuts a graph."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from air_aclgraph import uncapturable
from air_streams import ops


def marked(x: Tensor) -> Tensor:
    marker = ops.record()
    y = x + 1
    ops.wait([marker])
    return y * 2


def copied(x: Tensor) -> Tensor:
    return x + torch.ones(3).to(x.device)


def test_S21_a_marker_does_not_cut_a_graph_of_a_device() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        x = torch.empty(3, device="cuda")
        graphs = [make_fx(function)(x) for function in (marked, copied)]
    found = [uncapturable(gm, torch.device("cuda")) for gm in graphs]
    assert not found[0]
    assert found[1], "what the host computes for the device does"
