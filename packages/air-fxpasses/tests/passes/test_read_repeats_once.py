"""Matrices that a batch repeats are read once, with the numbers of the copies they replace."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from air_fxpasses import Pipeline, ReadRepeatsOnce, default_passes
from air_fxpasses.testing import copied, difference, functional_graph, run_graph

BATCH, HEADS, GROUPS, LENGTH, WIDTH = 2, 6, 3, 5, 4


def repeated(x: Tensor, times: int = GROUPS) -> Tensor:
    """As models of transformers repeat the heads of keys and values."""
    batch, heads, length, width = x.shape
    wide = x[:, :, None].expand(batch, heads, times, length, width)
    return wide.reshape(batch, heads * times, length, width)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.matmul(q, repeated(k).transpose(2, 3)) / 2
    return torch.matmul(F.softmax(scores, -1), repeated(v)) * 2


def operands(rows: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    q = torch.randn(BATCH, rows, HEADS, WIDTH).transpose(1, 2)
    k, v = (torch.randn(BATCH, HEADS // GROUPS, LENGTH, WIDTH) for _ in "kv")
    return q, k, v


def rewritten(
    function: Callable[..., Any], *inputs: Tensor, is_dynamic: bool = False
) -> tuple[Any, list[str], list[str]]:
    gm = functional_graph(function, *inputs, is_dynamic=is_dynamic)
    eager = run_graph(gm, copied(inputs))
    wanted = default_passes(lambda one: one.name in ("read_repeats_once", "eliminate_dead_code"))
    report = Pipeline(wanted, verify=True).run(gm, inputs)
    assert not any(step.rolled_back for step in report.steps), report.explain()
    assert difference(eager, run_graph(gm, copied(inputs)), rtol=1e-5) is None
    ops = [str(node.target) for node in gm.graph.nodes if node.op == "call_function"]
    return gm, ops, [refusal.reason for refusal in report.refusals]


def largest(gm: Any) -> int:
    """Of the values of a graph, in elements."""
    return max(int(node.meta["val"].numel()) for node in gm.graph.nodes if node.op == "call_function")


def test_keys_and_values_of_grouped_heads_are_not_copied() -> None:
    gm, ops, reasons = rewritten(attention, *operands(rows=1))
    assert ops.count("aten.bmm.default") == 2
    assert largest(gm) < BATCH * HEADS * LENGTH * WIDTH
    assert reasons == []


@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_numbers_are_those_of_eager_for_every_number_of_rows(rows: int, is_dynamic: bool) -> None:
    inputs = operands(rows)
    gm, _, _ = rewritten(attention, *inputs, is_dynamic=is_dynamic)
    torch.testing.assert_close(gm(*inputs), attention(*inputs))


def test_lengths_and_batches_may_be_symbolic() -> None:
    def projected(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        heads = (x.view(x.shape[0], x.shape[1], -1, WIDTH).transpose(1, 2) for x in (q, k, v))
        return attention(*heads)

    narrow = HEADS // GROUPS * WIDTH
    inputs = torch.randn(3, 7, HEADS * WIDTH), torch.randn(3, 9, narrow), torch.randn(3, 9, narrow)
    gm, _, reasons = rewritten(projected, *inputs, is_dynamic=True)
    assert reasons == []
    for batch, rows, length in ((3, 7, 9), (5, 1, 6), (1, 4, 1)):
        others = [
            torch.randn(batch, n, x.shape[2]) for n, x in zip((rows, length, length), inputs, strict=True)
        ]
        torch.testing.assert_close(gm(*others), projected(*others))


def test_a_product_of_more_dimensions_reads_them_once_as_well() -> None:
    """On an NPU `matmul` stays one operator."""
    q, k, _ = operands(rows=1)
    gm = torch.fx.symbolic_trace(Product())
    Pipeline([ReadRepeatsOnce()]).run(gm, (q, k))
    gm.graph.eliminate_dead_code()
    assert not gm.graph.find_nodes(op="call_function", target=torch.ops.aten.clone.default)
    torch.testing.assert_close(gm(q, k), Product()(q, k))


class Product(torch.nn.Module):
    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        aten = torch.ops.aten
        wide = aten.expand.default(aten.unsqueeze.default(k, 2), [BATCH, 2, GROUPS, LENGTH, WIDTH])
        copied = aten._unsafe_view.default(aten.clone.default(wide), [BATCH, HEADS, LENGTH, WIDTH])
        product = aten.matmul.default(q, aten.permute.default(copied, [0, 1, 3, 2]))
        doubled: Tensor = aten.mul.Tensor(product, 2)
        return doubled


def draw(choose: random.Random) -> tuple[Callable[..., Tensor], tuple[Tensor, Tensor]]:
    """Memory of four dimensions, one of them repeated, turned and brought to the form of matrices."""
    sizes = [choose.choice([1, 2, 3]) for _ in range(4)]
    at, times = choose.randrange(5), choose.choice([2, 3])
    order = choose.sample(range(5), 5)
    copies = [choose.random() < 0.5 for _ in range(2)]
    x = torch.randn(sizes)
    wide = [*sizes[:at], times, *sizes[at:]]
    turned = [wide[dim] for dim in order]
    batch, inner = turned[0] * turned[1] * turned[2], turned[3]
    left = torch.randn(batch, choose.choice([1, 2]), inner)

    def function(a: Tensor, b: Tensor) -> Tensor:
        repeats = b.unsqueeze(at).expand(wide)
        repeats = (repeats.clone() if copies[0] else repeats).permute(order)
        repeats = (repeats.contiguous() if copies[1] else repeats).reshape(batch, inner, turned[4])
        return torch.bmm(a, repeats) + 1

    return function, (left, x)


@pytest.mark.parametrize("programs", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_whatever_is_repeated_and_turned_gives_the_numbers_of_eager(programs: int) -> None:
    done = 0
    for seed in range(programs):
        function, inputs = draw(random.Random(seed))
        gm, _, reasons = rewritten(function, *inputs, is_dynamic=seed % 2 == 1)
        torch.testing.assert_close(gm(*inputs), function(*inputs))
        done += not reasons
    assert done >= programs // 6


def test_a_dimension_put_in_front_repeats_nothing() -> None:
    """As `torch.matmul` expands a matrix for a batch of one."""
    x, y = torch.randn(1, 4, 5), torch.randn(5, 4)
    _, ops, reasons = rewritten(lambda x, y: torch.bmm(x, y.expand(1, 5, 4)) + 1, x, y)
    assert ops.count("aten.bmm.default") == 1
    assert reasons == []


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda q, k: (repeated(k), torch.matmul(q, repeated(k).transpose(2, 3)) + 1), None),
        (lambda q, k: torch.matmul(q, repeated(k).transpose(2, 3)), "its result is returned"),
        (
            lambda q, k: torch.matmul(q, (r := repeated(k)).transpose(2, 3)).sum() + r.sum(),
            "is needed elsewhere",
        ),
        (
            lambda q, k: (
                torch.matmul(q, repeated(k).unflatten(1, (2, 3)).transpose(1, 2).flatten(1, 2).mT) + 1
            ),
            "neighbours in its batch",
        ),
    ],
)
def test_what_needs_the_copy_keeps_it_and_says_why(function: Any, reason: str | None) -> None:
    q, k, _ = operands(rows=1)
    _, _, reasons = rewritten(function, q, k)
    assert (reasons == []) if reason is None else any(reason in each for each in reasons)


@pytest.mark.parametrize("by_reshape", [False, True])
def test_memory_that_is_written_between_the_copy_and_the_product_is_copied(by_reshape: bool) -> None:
    """The repeated keys are those before the write, which a graph of operators that write shows."""
    aten = torch.ops.aten
    size = [2 * GROUPS, WIDTH, LENGTH]

    class Written(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            wide = aten.expand.default(aten.unsqueeze.default(k, 1), [2, GROUPS, WIDTH, LENGTH])
            if by_reshape:
                copied = aten.reshape.default(wide, size)
            else:
                copied = aten._unsafe_view.default(aten.clone.default(wide), size)
            aten.mul_.Tensor(k, 2)
            more: Tensor = aten.add.Tensor(aten.bmm.default(q, copied), 1)
            return more

    q, k = torch.randn(2 * GROUPS, 1, WIDTH), torch.randn(2, WIDTH, LENGTH)
    gm = torch.fx.symbolic_trace(Written())
    report = Pipeline([ReadRepeatsOnce()]).run(gm, (q, k))
    assert any("may write to what is repeated" in refusal.reason for refusal in report.refusals)
    torch.testing.assert_close(gm(q, k.clone()), Written()(q, k.clone()))


def test_running_the_pass_again_changes_nothing() -> None:
    gm, _, _ = rewritten(attention, *operands())
    assert not Pipeline([ReadRepeatsOnce()]).run(gm, operands()).modified
