"""Checks of numbers that only a run knows: torch makes those that can fail, and the others cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch._dynamo.backends.common import aot_autograd

from air_geir import compile_graph, lower
from air_geir.errors import ChecksLeftOut, UnsupportedGraphError
from air_geir.lowering._checks import checks_that_can_fail


@pytest.fixture(autouse=True)
def numbers_in_the_graph() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def made_by_torch(function: Callable[..., Any], *args: Tensor, dynamic: bool | None = None) -> list[str]:
    """The targets of what torch has to run for checks in the graph of a function."""
    found: list[str] = []

    def compiler(gm: fx.GraphModule, examples: Any) -> Any:
        found.extend(str(node.target) for node in checks_that_can_fail(gm))
        return gm.forward

    torch.compile(function, backend=aot_autograd(fw_compiler=compiler), fullgraph=True, dynamic=dynamic)(
        *args
    )
    return found


def read_number(x: Tensor) -> Tensor:
    n = x.sum().item()
    torch._check(n < 4)
    return x * n


def read_and_branch(x: Tensor) -> Tensor:
    n = x[0].item()
    torch._check(n >= 0)
    return x * 2 if n >= 0 else x * 3


def so_many_found(x: Tensor) -> Tensor:
    found = x.nonzero()
    torch._check(found.size(0) == 4)
    return found + 1


def fewer_found(x: Tensor) -> Tensor:
    found = x.nonzero()
    torch._check(found.size(0) < 5)
    return found + 1


#: torch 2.11 and 2.12 have no such checks in their traces, with any backend.
CHECKED_SIZES = [so_many_found, fewer_found] if torch.__version__ >= "2.13" else []


@pytest.mark.parametrize("function", [read_number, read_and_branch, *CHECKED_SIZES])
def test_a_check_of_the_program_is_made_by_torch(function: Callable[..., Any]) -> None:
    fits = torch.ones(3) if function is read_number else torch.ones(4)
    assert "aten._assert_scalar.default" in made_by_torch(function, fits.long())


@pytest.mark.skipif(torch.__version__ < "2.13", reason="older torch has no such check in its trace")
def test_a_size_that_a_check_states_is_found_and_read_by_torch() -> None:
    found = made_by_torch(so_many_found, torch.ones(4).long())
    assert {"aten.nonzero.default", "aten.sym_size.int"} < set(found)


def stated_number(x: Tensor) -> Tensor:
    n = x.sum().item()
    torch._check(n == 4)
    return x * n


def test_a_number_that_a_check_states_is_read_by_torch() -> None:
    assert "aten._local_scalar_dense.default" in made_by_torch(stated_number, torch.ones(4).long())


def masked(x: Tensor) -> Tensor:
    return x[x > 0] * 2


def rows(x: Tensor) -> Tensor:
    return x[x.sum(1) > 0] + 1


def selected(x: Tensor) -> Tensor:
    return torch.masked_select(x, x > 0) * 2


def unique(x: Tensor) -> Any:
    return torch.unique(x.round(), return_counts=True)


def places(x: Tensor) -> Tensor:
    return x.nonzero()[:, 0] + 1


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("function", [masked, rows, selected, unique, places])
def test_what_an_operator_finds_is_within_its_bounds(
    function: Callable[..., Any], dynamic: bool | None
) -> None:
    assert made_by_torch(function, torch.randn(5, 7), dynamic=dynamic) == []


def checked_in_a_branch(x: Tensor, first: Tensor) -> Any:
    return torch.cond(first, read_number, lambda x: x * 2, (x,))


def test_a_branch_with_a_check_is_run_by_torch() -> None:
    def compiler(gm: fx.GraphModule, examples: Any) -> Any:
        with pytest.raises(
            UnsupportedGraphError, match=r"_assert_scalar(.|\n)*cannot stop(.|\n)*test_checks"
        ):
            compile_graph(gm, examples, engine="reference")
        return gm.forward

    run = torch.compile(checked_in_a_branch, backend=aot_autograd(fw_compiler=compiler), fullgraph=True)
    run(torch.ones(3).long(), torch.tensor(True))


def test_a_graph_that_stands_alone_says_that_it_does_not_check() -> None:
    def compiler(gm: fx.GraphModule, examples: Any) -> Any:
        with pytest.warns(ChecksLeftOut, match="test_checks.py"):
            lower(gm)
        return gm.forward

    torch.compile(read_number, backend=aot_autograd(fw_compiler=compiler), fullgraph=True)(
        torch.ones(3).long()
    )


def made_of_a_number(x: Tensor) -> Tensor:
    n: Any = x[0].item()
    return torch.ones(n) + torch.arange(n)


def split_by_numbers(x: Tensor) -> Any:
    first, second = x.tolist()
    return torch.ones(first + second).split([first, second])[0]


def test_a_number_that_is_a_size_is_checked_by_who_makes_the_tensor() -> None:
    assert made_by_torch(made_of_a_number, torch.tensor([2, 1])) == []


def test_a_number_that_splits_may_be_negative_and_is_checked() -> None:
    """Engines take -1 for the rest."""
    assert "aten._assert_scalar.default" in made_by_torch(split_by_numbers, torch.tensor([2, 1]))
