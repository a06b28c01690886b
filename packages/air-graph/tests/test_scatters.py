"""Which view of its base a scatter replaces."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx import Graph

from air_graph import SCATTERS, view_arguments

aten = torch.ops.aten

CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (aten.slice_scatter.default, (1, 0, 4, 2), {}),
    (aten.slice_scatter.default, (0,), {"start": 1, "end": 3}),
    (aten.select_scatter.default, (1, -1), {}),
    (aten.diagonal_scatter.default, (1,), {}),
    (aten.as_strided_scatter.default, ((2, 2), (5, 1), 1), {}),
]


@pytest.mark.parametrize(("scatter", "args", "kwargs"), CALLS)
@pytest.mark.parametrize("by_name", [False, True])
def test_what_a_scatter_replaces_is_its_view_with_the_same_arguments(
    scatter: Any, args: tuple[Any, ...], kwargs: dict[str, Any], by_name: bool
) -> None:
    base = torch.arange(16.0).reshape(4, 4)
    source = torch.full_like(SCATTERS[scatter](base, *args, **kwargs), 99.0)
    graph = Graph()
    given = [graph.placeholder("base"), graph.placeholder("source")]
    names = [argument.name for argument in scatter._schema.arguments[2:]]
    if by_name:
        node = graph.call_function(
            scatter, (given[0],), {"src": given[1], **dict(zip(names, args, strict=False)), **kwargs}
        )
    else:
        node = graph.call_function(scatter, (*given, *args), kwargs)
    viewed, named = view_arguments(node)
    expected = base.clone()
    SCATTERS[scatter](expected, *viewed, **named).copy_(source)
    torch.testing.assert_close(scatter(base, source, *args, **kwargs), expected)
