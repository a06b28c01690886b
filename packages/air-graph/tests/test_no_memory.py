"""Which calls have a value that no compiler can hold in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import no_memory


def left_out(function: Callable[..., Any], *arguments: Tensor) -> dict[str, str]:
    gm: GraphModule = make_fx(function, tracing_mode="fake")(*arguments)
    return {node.name: why for node in gm.graph.nodes if (why := no_memory(node)) is not None}


def test_a_dense_value_is_memory() -> None:
    assert left_out(lambda x: (x.t() + 1).sum(), torch.ones(2, 3)) == {}


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x: (x + 1, torch.empty(3, device="meta")), ["empty"]),
        (lambda x: x.to("meta").relu(), ["_to_copy", "relu"]),
        (lambda x: torch.zeros_like(x.to("meta"), device="cpu") + 1, ["_to_copy", "zeros_like"]),
    ],
)
def test_a_call_that_takes_or_gives_a_tensor_on_meta_has_none(
    function: Callable[..., Any], names: list[str]
) -> None:
    found = left_out(function, torch.ones(2, 3))
    assert list(found) == names
    assert set(found.values()) == {"a tensor on 'meta' has no memory"}


def test_a_sparse_value_has_no_one_size() -> None:
    found = left_out(lambda x: x.to_sparse(), torch.ones(2, 3))
    assert list(found.values()) == ["a tensor of layout torch.sparse_coo is no memory of one size"]
