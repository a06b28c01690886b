"""Sizes are declared on a tensor once, each dim by its own list, and whoever declares wrongly is told what to write."""

from __future__ import annotations

import pytest
import torch

from air_config.errors import AirError
from air_fxpasses.declared import Declaration, declared_on
from air_fxpasses.errors import DeclarationRefused

SEATS = Declaration("set_dim_seats", "dim_seats", "seats", least=2, most=3)


def kept(_: int, sizes: object) -> tuple[int, ...]:
    assert isinstance(sizes, list)
    return tuple(sizes)


def test_a_declaration_makes_its_dims_dynamic_and_is_found_again() -> None:
    x = torch.zeros(4, 5)
    SEATS.declare(x, {1: [5, 6], 0: [4]}, kept)
    assert declared_on(x, "dim_seats") == {0: (4,), 1: (5, 6)}
    seen: list[torch.Size] = []

    def look(gm: torch.fx.GraphModule, _: object) -> object:
        seen.append(
            next(iter(gm.graph.find_nodes(op="placeholder", target="L_x_"))).meta["example_value"].shape
        )
        return gm

    torch.compile(lambda x: x + 1, backend=look)(x)
    assert all(isinstance(size, torch.SymInt) for size in seen[0])


def test_the_same_once_more_is_fine_and_something_else_is_not() -> None:
    x = torch.zeros(4)
    SEATS.declare(x, {0: [4, 8]}, kept)
    SEATS.declare(x, {0: [4, 8]}, kept)
    with pytest.raises(DeclarationRefused, match=r"the seats of this tensor are already \{0: \(4, 8\)\}"):
        SEATS.declare(x, {0: [4]}, kept)
    assert declared_on(x, "dim_seats") == {0: (4, 8)}


@pytest.mark.parametrize(
    ("tensor", "declared", "message", "advice"),
    [
        (3, {0: [2]}, "seats are declared on an input tensor, not on 3", r"call set_dim_seats\(tensor"),
        (torch.zeros(2), {0: [1, 2]}, "set_dim_seats: 1 is no size for dim 0", "an int from 2 to"),
        (torch.zeros(2), {0: [2, 3, 4, 5]}, "dim 0 has 4 sizes", "give at most 3"),
        (torch.zeros(()), {0: [2]}, "0 is no dim of a tensor of rank 0", "a tensor of rank 0 has none"),
    ],
)
def test_a_wrong_declaration_is_refused_with_advice_and_leaves_nothing(
    tensor: object, declared: object, message: str, advice: str
) -> None:
    with pytest.raises(DeclarationRefused, match=f"(?s){message}.*{advice}"):
        SEATS.declare(tensor, declared, kept)
    assert declared_on(tensor, "dim_seats") is None  # type: ignore[arg-type]  # a number has no attribute either


@pytest.mark.parametrize("kind", [AirError, ValueError, AssertionError])
def test_one_class_is_caught_as_an_error_of_air_of_value_and_as_torchairs(kind: type[Exception]) -> None:
    with pytest.raises(kind):
        SEATS.declare(torch.zeros(2), [2], kept)
