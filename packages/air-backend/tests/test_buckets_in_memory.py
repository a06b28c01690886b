"""Results of padded calls lie where eager has them: in the caller's tensors, and together where they share memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
import torch
from torch import Tensor

from air_backend import _records
from air_backend.inference import set_dim_buckets
from bucketed import compiled, only_run

COUNTS = (3, 7, 4, 2, 3)


def plain(count: int) -> Tensor:
    return torch.randn(count, 4)


def inside(count: int) -> Tensor:
    """Rows and every other column of a larger tensor."""
    return torch.randn(count + 2, 8)[1:-1, ::2]


def wide(count: int) -> Tensor:
    """The padded dim is the last one, so that the caller's part of memory has gaps."""
    return torch.randn(4, count)


def halves(x: Tensor) -> Any:
    return x.chunk(2, 1)[1], x + 1


def first_row(x: Tensor) -> Any:
    return x[0], x * 2


def widened(x: Tensor) -> Any:
    return x.unsqueeze(0).expand(2, *x.shape), x + 1


def as_integers(x: Tensor) -> Any:
    return x.view(torch.int32), x.abs()


def overlapping(x: Tensor) -> Any:
    y = x * 2
    return y, y[1:]


def columns(x: Tensor) -> Any:
    y = x + 1
    return y[1:], y, y.t()


def repeated(x: Tensor) -> Any:
    y = (x + 1)[None].expand(3, *x.shape)
    return y, y[1:]


def detached(x: Tensor) -> Any:
    y = x.relu()
    return y, y.detach(), y[:, :1]


def first_column(x: Tensor) -> Any:
    return (x * 2)[:, 0], x + 1


def behind(x: Tensor) -> Any:
    """Its place in memory depends on the padded size."""
    return (x * 2)[2:], (x + 1).sum(0)


def at(results: Sequence[Tensor], given: Sequence[Tensor]) -> list[tuple[Any, ...]]:
    """What a caller sees of each result's memory: strides, where it begins, and the first value in it."""
    everything = [*given, *results]
    owners = [value.untyped_storage()._cdata for value in everything]
    return [
        (value.stride(), value.storage_offset(), owners.index(value.untyped_storage()._cdata))
        for value in results
    ]


CASES: Final = (
    (halves, inside, 0), (first_row, inside, 0), (widened, plain, 0), (widened, wide, 1), (as_integers, inside, 0),
    (overlapping, wide, 1), (columns, wide, 1), (repeated, wide, 1), (detached, wide, 1), (first_column, wide, 1),
    (behind, wide, 1),
)  # fmt: skip


@pytest.mark.parametrize(("function", "make", "dim", "outputs"), [
    *((*case, "kept") for case in CASES),
    *((*case, outputs) for case in CASES[3:7:2] for outputs in ("clone", "view", "guarded")),
])  # fmt: skip
def test_N11_N25_results_of_padded_calls_lie_where_eager_has_them(
    function: Callable[[Tensor], Any], make: Callable[[int], Tensor], dim: int, outputs: str, device: str
) -> None:
    run = compiled(function, air__outputs=outputs)
    with torch.no_grad():
        for count in COUNTS:
            x = make(count).to(device)
            set_dim_buckets(x, {dim: [4, 8]})
            own, eager = run(x), function(x)
            for one, other in zip(own, eager, strict=True):
                torch.testing.assert_close(one, other)
            assert at(own, [x]) == at(eager, [x])
    assert only_run().stats()["padded"] == len(COUNTS)


def test_N11_rows_without_room_between_them_are_not_padded() -> None:
    """Columns of a larger tensor: padded by their strides they would lie in the next row."""
    run = compiled(lambda x: x.max(0).values + 1)
    with torch.no_grad():
        for count in (3, 5, 4, 2):
            x = torch.randn(4, 6)[:, :count]
            set_dim_buckets(x, {1: [4, 8]})
            torch.testing.assert_close(run(x), x.max(0).values + 1)
    stats = only_run().stats()
    assert stats["padded"] == 3
    ((reason, calls),) = stats["not_padded"].items()
    assert "between whose rows is no room for padding" in reason
    assert calls == 1


def test_N11_a_result_that_lies_as_an_input_does_in_a_larger_tensor_is_not_padded(device: str) -> None:
    """The padded input begins where its memory does, and so did the result."""

    def function(x: Tensor) -> Tensor:
        return torch.select_scatter(x[0], x[0, 0] + 1, 0, 0)

    run = compiled(function)
    with torch.no_grad():
        for begin in (1, 0, 2):
            x = torch.randn(3 + begin, 4).to(device)[begin:]
            set_dim_buckets(x, {0: [4, 8]})
            own, eager = run(x), function(x)
            assert torch.equal(own, eager)
            assert at([own], [x]) == at([eager], [x])
    said = [reason for _, run in _records.alive() for reason in run.stats()["not_padded"]]
    assert any("does in a larger tensor" in reason for reason in said)
    assert sum(run.stats()["padded"] for _, run in _records.alive()) == 1


def test_N11_results_of_padded_calls_are_views_of_each_other_as_in_eager() -> None:
    def function(x: Tensor) -> Any:
        y = x * 2
        return y, y[1:], x + 1, (x - 1).detach()

    run = compiled(function)
    with torch.no_grad():
        for count in COUNTS:
            x = wide(count)
            set_dim_buckets(x, {1: [4, 8]})
            whole, rows, other, detached = run(x)
            assert [value._base is None for value in (whole, other, detached)] == [True] * 3
            assert rows._base is whole
