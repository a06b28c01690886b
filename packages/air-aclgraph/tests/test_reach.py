"""Inputs whose storage is addressed from its start: values, aliases and writes are those of eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from aclgraph_backend import Backend, executable, traced
from air_aclgraph._reach import addressed_placeholders
from air_aclgraph.errors import InputRefused

#: Where an input lies in a base of how many elements, call by call.
PLACES = ((10, 2), (10, 2), (10, 3), (12, 3), (10, 0), (10, 2))


def part(size: int, offset: int, device: str, seed: int) -> Tensor:
    return (torch.arange(float(size)) + 100 * seed).to(device)[offset : offset + 6].view(2, 3)


def from_the_start(x: Tensor) -> Tensor:
    return x.as_strided((2,), (1,), 0) + 1


def where_it_begins(x: Tensor) -> Tensor:
    return x.as_strided((3,), (2,)) + 1


def beyond_its_end(x: Tensor) -> Tensor:
    return x.as_strided((2,), (1,), 8) + 1


def of_a_view(x: Tensor) -> Tensor:
    return x.t()[1:].as_strided((2, 2), (1, 3), 3) * 2


def of_other_numbers(x: Tensor) -> Tensor:
    return x.view(torch.int32).as_strided((4,), (1,), 3) + 1


def as_a_copy(x: Tensor) -> Tensor:
    return torch.as_strided_copy(x, (2,), (1,), 3) + 1


def in_a_branch(x: Tensor) -> Tensor:
    return torch.cond(  # type: ignore[no-any-return]  # torch leaves it unannotated
        x.sum() > 1000,
        lambda t: t.as_strided((2,), (1,), 1) * 2,
        lambda t: t.as_strided((2,), (1,), 4) * 1,
        (x,),
    )


def handed_back(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.as_strided((2,), (1,), 3), x * 2


FUNCTIONS = (
    from_the_start, where_it_begins, beyond_its_end, of_a_view, of_other_numbers, as_a_copy, handed_back,
)  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("clone_input", [True, False], ids=["copied", "bound"])
@pytest.mark.parametrize("function", [*FUNCTIONS, in_a_branch], ids=lambda f: f.__name__)
def test_an_input_is_addressed_where_it_lies_in_its_storage(
    function: Callable[..., Any], clone_input: bool, dynamic: bool, device: str
) -> None:
    if function is in_a_branch and device != "cpu":
        pytest.skip("devices refuse torch.cond")
    backend = Backend(device, debug__aclgraph__clone_input=clone_input)
    compiled = torch.compile(function, backend=backend, dynamic=dynamic)
    for seed, (size, offset) in enumerate(PLACES):
        x, twin = (part(size, offset, device, seed) for _ in range(2))
        expected, found = tree_leaves(function(x)), tree_leaves(compiled(twin))
        for e, f in zip(expected, found, strict=True):
            assert torch.equal(f, e)
            aliases = e.untyped_storage()._cdata == x.untyped_storage()._cdata
            assert not aliases or f.data_ptr() - twin.data_ptr() == e.data_ptr() - x.data_ptr()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.diagonal_scatter(x, x.diagonal() + 1),
        lambda x: torch.select_scatter(x[1:], x[0] + 1, 0, 0)[:, 1:],
        lambda x: torch.slice_scatter(x.t(), x.t()[:1] * 2, 0, 0, 1),
    ],
    ids=["diagonal", "select of a view", "slice of a transposed one"],
)
def test_a_scatter_that_is_returned_lies_where_its_base_lies(
    function: Callable[[Tensor], Tensor], device: str
) -> None:
    compiled = torch.compile(function, backend=Backend(device), dynamic=False)
    for seed, (size, offset) in enumerate(PLACES):
        x = part(size, offset, device, seed)
        expected, found = function(x), compiled(part(size, offset, device, seed))
        assert torch.equal(found, expected)
        assert (found.stride(), found.storage_offset()) == (expected.stride(), expected.storage_offset())


def test_a_write_through_as_strided_reaches_the_storage_of_the_caller(device: str) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        x.as_strided((2,), (1,), 8).add_(5)
        return (x * 2 + x.as_strided((2, 3), (3, 1), 4),)

    run = executable(function, part(10, 2, device, 0), device=device)
    for seed in range(12):  # the input moves so often that it is carried in and out at last
        x, twin = (part(10, 2, device, seed) for _ in range(2))
        assert torch.equal(run(twin)[0], function(x)[0])
        assert x._base is not None
        assert twin._base is not None
        assert torch.equal(x._base, twin._base)


def test_a_copied_input_whose_storage_the_graph_writes_elsewhere_runs_uncaptured(device: str) -> None:
    def function(x: Tensor, cache: Tensor) -> tuple[Tensor, ...]:
        cache.add_(1)
        return (x.as_strided((4,), (1,), 0) * 1,)

    base = torch.arange(10.0, device=device)
    run = executable(function, base[6:], base[:4].clone(), device=device)
    for cache in (torch.zeros(4, device=device), base[:4], torch.zeros(4, device=device)):
        expected = (base[:4] + 1 if cache.data_ptr() == base.data_ptr() else base[:4]).clone()
        assert torch.equal(run(base[6:], cache)[0], expected)
    assert run.stats()["eager_calls"]


def test_a_bound_input_with_other_strides_at_the_same_address_is_another_key(device: str) -> None:
    base = torch.arange(60.0, device=device)
    backend = Backend(device, debug__aclgraph__clone_input=False)
    compiled = torch.compile(lambda x: x + 1, backend=backend, dynamic=True)
    for stride in (10, 12, 10, 7):
        x = base.as_strided((3, 4), (stride, 1))
        assert torch.equal(compiled(x), x + 1)


def test_a_written_input_with_other_strides_at_the_same_address_is_another_key(device: str) -> None:
    base, twin = (torch.arange(60.0, device=device) for _ in range(2))
    compiled = torch.compile(lambda x: x.mul_(2), backend=Backend(device), dynamic=True)
    for stride in (10, 12, 10, 7):
        compiled(base.as_strided((3, 4), (stride, 1)))
        twin.as_strided((3, 4), (stride, 1)).mul_(2)
        assert torch.equal(base, twin)


def test_a_pinned_call_refuses_an_input_from_elsewhere_in_its_storage(device: str) -> None:
    run = executable(lambda x: (from_the_start(x),), part(10, 2, device, 0), device=device)
    step = run.pin(part(10, 2, device, 0))
    assert torch.equal(step(part(10, 2, device, 3))[0], from_the_start(part(10, 2, device, 3)))
    with pytest.raises(InputRefused, match="another element of its storage"):
        step(part(10, 3, device, 0))


def test_only_inputs_that_are_addressed_are_read_whole() -> None:
    def function(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        return x.t().as_strided((2,), (1,), 1), (y + 1).as_strided((2,), (1,), 1), z.unfold(0, 2, 1)

    gm = traced(function, torch.ones(3, 3), torch.ones(3), torch.ones(3))
    assert [node.target for node in addressed_placeholders(gm)] == ["x_1"]


def test_a_scatter_of_which_the_caller_gets_no_copy_reads_no_more_than_its_base() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return torch.select_scatter(x, x[0] + 1, 0, 0) * 2, torch.select_scatter(y, y[0] + 1, 0, 0).t()

    gm = traced(function, torch.ones(3, 3), torch.ones(3, 3))
    assert [node.target for node in addressed_placeholders(gm)] == ["y_1"]
