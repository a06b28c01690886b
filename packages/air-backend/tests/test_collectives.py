"""`patch_for_hcom`: the two collectives are traced in every way in which they can be called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from air_backend import get_npu_backend, patch_for_hcom
from air_backend._collectives import PATCHED

Call = Callable[[Tensor], object]


@pytest.fixture(autouse=True)
def patched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The patch, in a group of one, for one test."""
    store = torch._C._distributed_c10d.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    for name in PATCHED:
        monkeypatch.setattr(dist, name, getattr(dist, name))
    patch_for_hcom()
    yield
    dist.destroy_process_group()


def compiled(call: Call, *, fullgraph: bool) -> Any:
    def function(x: Tensor) -> Tensor:
        y = x + 1
        call(y)
        return y * 2

    return torch.compile(function, backend=get_npu_backend(), fullgraph=fullgraph)


@pytest.mark.parametrize(
    "call",
    [
        lambda y: dist.broadcast(y, 0),
        lambda y: dist.broadcast(y, 0, None, False),
        lambda y: dist.broadcast(y, None, None, False, 0),
        lambda y: dist.broadcast(y, group_src=0, async_op=False),
        lambda y: dist.all_to_all([y], [y + 0], None, False),
    ],
)
def test_S25_arguments_may_be_given_by_position(call: Call) -> None:
    assert compiled(call, fullgraph=True)(torch.ones(2)).tolist() == [4.0, 4.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda y: dist.broadcast(y, 0, None, True).wait(),
        lambda y: dist.broadcast(y, 0, async_op=True).wait(),
    ],
)
def test_a_handle_breaks_the_graph_wherever_it_is_asked_for(call: Call) -> None:
    assert compiled(call, fullgraph=False)(torch.ones(2)).tolist() == [4.0, 4.0]
    with pytest.raises(torch._dynamo.exc.Unsupported, match="async_op=True"):
        compiled(call, fullgraph=True)(torch.ones(2))
