"""Which operators see more of the memory behind a value than its elements."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from air_graph import addresses_storage, copies_with_gaps, surroundings_of


def names(function: Callable[[Tensor], Tensor]) -> list[list[str]]:
    """The scatters behind each operator that addresses memory."""
    graph = make_fx(function)(torch.ones(4, 4)).graph
    return [[n.name for n in copies_with_gaps(node)] for node in graph.nodes if addresses_storage(node)]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: torch.as_strided_copy(x, (2,), (3,), 1), [[]]),
        (lambda x: torch.as_strided_copy(x + 1, (2,), (3,), 1), [[]]),
        (lambda x: torch.select_scatter(x, x[0], 0, 1) * 2, []),
        (
            lambda x: torch.as_strided_copy(
                torch.slice_scatter(torch.select_scatter(x, x[0], 0, 1), x[:2], 0, 0, 2).t()[1:],
                (2,),
                (3,),
                1,
            ),
            [["slice_scatter", "select_scatter"]],
        ),
    ],
    ids=["an input", "a sum", "nothing addressed", "two scatters and views"],
)
def test_scatters_are_found_behind_what_addresses_their_memory(
    function: Callable[[Tensor], Tensor], expected: list[list[str]]
) -> None:
    assert names(function) == expected


def test_a_scatter_copies_its_surroundings_from_the_value_that_owns_them() -> None:
    def scattered(x: Tensor) -> Tensor:
        return torch.slice_scatter(torch.select_scatter(x[1:], x[0], 0, 1), x[:1], 0, 0, 1).t()[1:] + 1

    graph = make_fx(scattered)(torch.zeros(4, 4)).graph
    found = {node.name: surroundings_of(node) for node in graph.nodes}
    scatters = [name for name in found if "scatter" in name]
    assert {str(found[name]) for name in [*scatters, "t"]} == {"x_1"}
    assert found["x_1"] is None
    assert found["add"] is None
