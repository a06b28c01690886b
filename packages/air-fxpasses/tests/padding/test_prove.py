"""What may be padded and what may not: programs, each judged by running it at two sizes."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.nn import functional

from air_fxpasses import Refusal
from air_fxpasses.padding import PaddedSize, Proof, prove
from air_graph import register_hidden_writes
from padded_runs import check, symbols_of, traced

aten = torch.ops.aten
ROWS = 5  # the padded size in all of these programs: the first input's first dimension
X, Y, W = (ROWS, 7), (ROWS, 7), (7, 11)


def _sliced_blocks(x: Tensor, rows: Any) -> list[Tensor]:
    return [x[:rows] * 2, x[rows : 2 * rows] * 3, x[rows:] * 4, x[: 2 * rows] * 5]


PROVEN: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "elementwise": (lambda x, y: (x * 2 + y).relu().sigmoid(), (X, Y)),
    "a row is broadcast": (lambda x, b: x + b, (X, (7,))),
    "a linear layer": (lambda x, w, b: torch.addmm(b, x, w), (X, W, (11,))),
    "softmax of a row": (lambda x: x.softmax(-1), (X,)),
    "the norm of a layer": (lambda x: functional.layer_norm(x, (7,)), (X,)),
    "the mean of a row": (lambda x: x.mean(-1, keepdim=True) + x.sum(1)[:, None], (X,)),
    "rows merged and split again": (
        lambda x, w: (x.view(-1, 7) @ w).view(x.shape[0], 3, 11).transpose(1, 2),
        ((ROWS, 3, 7), W),
    ),
    "padding between rows": (lambda x: x.reshape(-1, 7) * 2, ((3, ROWS, 7),)),
    "attention of each sequence": (
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v),
        ((ROWS, 2, 3, 4), (ROWS, 2, 3, 4), (ROWS, 2, 3, 4)),
    ),
    "causal attention of a longer sequence": (
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        ((2, 3, ROWS, 4), (2, 3, ROWS, 4), (2, 3, ROWS, 4)),
    ),
    "the first row": (lambda x: x[0] * 2, (X,)),
    "what is counted from the beginning": (lambda x: x.cumsum(0), (X,)),
    "positions": (lambda x: x + torch.arange(x.shape[0])[:, None], (X,)),
    "each row picks its own": (lambda x: x[torch.arange(x.shape[0]), 3], (X,)),
    "a table as long as the padding": (lambda x, t: x + t[: x.shape[0]], (X, (13, 7))),
    "rows behind rows": (lambda x, y: torch.cat([x, y], 0), (X, Y)),
    "blocks of rows, apart again": (
        lambda x, y: [part * 2 for part in torch.cat([x, y, x * 3], 0).split([x.shape[0], 2 * x.shape[0]])],
        (X, Y),
    ),
    "blocks of rows, sliced": (lambda x, y: _sliced_blocks(torch.cat([x, y, x * 3], 0), x.shape[0]), (X, Y)),
    "halves of blocks": (lambda x, y: torch.cat([x, y], 0).chunk(2), (X, Y)),
    "columns beside one another": (lambda x, y: torch.cat([x, y], 1), (X, Y)),
    "a mask of positions": (lambda x: x @ x.new_ones(7, 7).tril(), (X,)),
    "a triangle of rows": (lambda x: (x[:, None, 0] * x[None, :, 0]).tril(), (X,)),
    "the largest of a row": (lambda x: x.topk(3, dim=-1), (X,)),
    "convolution": (
        lambda x, w: functional.max_pool2d(functional.conv2d(x, w, padding=1), 2),
        ((ROWS, 3, 8, 8), (4, 3, 3, 3)),
    ),
    "rows and columns of a square": (lambda x: x + x.t(), ((ROWS, ROWS),)),
    "part of each row replaced": (
        lambda x, y: torch.select_scatter(torch.slice_scatter(x, y[:, :2], 1, 3, 5), y[:, 0], 1, 0),
        (X, Y),
    ),
    "the other input's sum": (lambda x, y: x * y.sum(), (X, (4, 3))),
}

REFUSED: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], str]] = {
    "the sum of a column": (lambda x: x.sum(0), (X,), "reduces over the padded dimension"),
    "the sum of all": (lambda x: x.sum(), (X,), "reduces over the padded dimension"),
    "softmax of a column": (lambda x: x.softmax(0), (X,), "along the padded dimension"),
    "a product over rows": (lambda x: x.t() @ x, (X,), "sums over the padded dimension"),
    "attention over what is padded": (
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v),
        ((2, 3, 4, 6), (2, 3, ROWS, 6), (2, 3, ROWS, 6)),
        "sums over the padded dimension",
    ),
    "the last row": (lambda x: x[-1], (X,), "from the end"),
    "the last rows": (lambda x: x[-2:], (X,), "from the end"),
    "all rows but one": (lambda x: x[1:], (X,), "no multiple|ends in its padding"),
    "rows in another order": (lambda x: x.flip(0), (X,), "order of the padded dimension"),
    "rows behind others": (lambda x, w: torch.cat([x, w], 0), (X, (4, 7)), "no multiple of the padded size"),
    "rows behind blocks": (
        lambda x, y: torch.cat([x, y.reshape(-1)[:, None].expand(-1, 7)], 0),
        (X, Y),
        "behind one another",
    ),
    "part of a block": (lambda x, y: torch.cat([x, y], 0)[1 : x.shape[0] + 1], (X, Y), "padding between"),
    "some rows of the padded dimension": (lambda x: x.split([1, x.shape[0] - 1]), (X,), "padded"),
    "columns split by the number of rows": (
        lambda x, y: y.split(x.shape[0], 1),
        (X, (4, 7)),
        "no multiple of the padded size",
    ),
    "rows by number": (lambda x, i: x[i.long()], (X, (3,)), "picked by number"),
    "rows of a table of unknown length": (
        lambda x, t: t[torch.arange(x.shape[0])],
        (X, (13, 7)),
        "not padded as well",
    ),
    "the number of rows as a number": (lambda x: x / x.shape[0], (X,), "computed from the padded size"),
    "the number of rows as a fraction": (
        lambda x: x * (1.0 / x.shape[0]),
        (X,),
        "computed from the padded size",
    ),
    "a row of a table, counted from the number of rows": (
        lambda x, t: x + t.select(0, x.shape[0] - 1),
        (X, (13, 7)),
        "which element is taken depends",
    ),
    "rows of a table behind the number of rows": (
        lambda x, t: x + t[x.shape[0] : x.shape[0] + 1],
        (X, (13, 7)),
        "where a slice lies depends",
    ),
    "numbers counted from the number of rows": (
        lambda x: x + torch.arange(x.shape[0], x.shape[0] + 7),
        (X,),
        "counted from the padded size",
    ),
    "noise": (lambda x: x + torch.rand_like(x), (X,), "random"),
    "as many as are positive": (lambda x: x[x > 0], (X,), "depends on values|picked by number"),
    "an input that is written": (lambda x: x.add_(1), (X,), "in place"),
    "rows repeated": (lambda x: x.repeat(2, 1), (X,), "repeated|no multiple"),
    "columns and rows merged": (
        lambda x: x.t().reshape(-1).view(x.shape[0], 7),
        (X,),
        "cuts through the padded size",
    ),
    "statistics of the batch": (
        lambda x: functional.batch_norm(x, torch.zeros(7), torch.ones(7), training=True),
        (X,),
        "no rule says|in place",
    ),
}


def inputs_of(shapes: tuple[tuple[int, ...], ...]) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.rand(shape) for shape in shapes]


def proof_of(function: Callable[..., Any], inputs: list[Tensor]) -> tuple[Any, Proof | Refusal]:
    gm = traced(function, *inputs)
    (symbol,) = [symbol for symbol, value in symbols_of(gm).items() if value == ROWS]
    return gm, prove(gm, symbol)


@pytest.mark.parametrize("name", PROVEN)
def test_N11_what_does_not_mix_rows_may_be_padded(name: str) -> None:
    function, shapes = PROVEN[name]
    inputs = inputs_of(shapes)
    gm, proof = proof_of(function, inputs)
    assert isinstance(proof, Proof), str(proof)
    check(gm, proof, inputs)


@pytest.mark.parametrize("name", REFUSED)
def test_N11_what_mixes_rows_is_refused_with_the_operator(name: str) -> None:
    function, shapes, reason = REFUSED[name]
    _, refusal = proof_of(function, inputs_of(shapes))
    assert isinstance(refusal, Refusal)
    assert re.search(reason, refusal.reason), refusal.reason
    assert refusal.node


def test_N11_the_judge_of_these_tests_finds_a_wrong_proof() -> None:
    inputs = inputs_of((X,))
    gm, proof = proof_of(lambda x: x.relu(), inputs)
    assert isinstance(proof, Proof)
    mixing = traced(lambda x: x.relu().softmax(0), *inputs)
    with pytest.raises(AssertionError):
        check(mixing, replace(proof, size=PaddedSize(tuple(symbols_of(mixing))[:1])), inputs)
    assert check(gm, proof, inputs) == 1


def test_N11_two_sizes_that_are_always_equal_are_padded_as_one() -> None:
    def picks(x: Tensor, mask: Tensor) -> Tensor:
        return x * mask[torch.arange(x.shape[0]), 0][:, None]

    x, mask = torch.rand(5, 7), torch.rand(6, 3)
    gm = traced(picks, x, mask)
    rows, others = (symbol for symbol, value in symbols_of(gm).items() if value in (5, 6))
    alone = prove(gm, rows)
    assert isinstance(alone, Refusal)
    assert "not padded as well" in alone.reason
    assert isinstance(prove(gm, rows, others), Proof)


def test_N11_expanded_memory_has_no_room_for_padding() -> None:
    refusal = proof_of(operator.neg, [torch.rand(1, 7).expand(ROWS, 7)])[1]
    assert isinstance(refusal, Refusal)
    assert "repeats its memory" in refusal.reason


def test_N11_an_operator_without_a_rule_is_let_through_where_no_padding_comes() -> None:
    def both(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, torch.linalg.inv(y)

    inputs = [torch.rand(ROWS, 7), torch.eye(4)]
    gm, proof = proof_of(both, inputs)
    assert isinstance(proof, Proof)
    assert check(gm, proof, inputs) == 1
    refusal = proof_of(torch.linalg.inv, [torch.rand(ROWS, 4, 4)])[1]
    assert isinstance(refusal, Refusal)
    assert "no rule says" in refusal.reason


def test_N11_an_operator_that_writes_what_its_schema_reads_is_refused() -> None:
    library = torch.library.Library("prove_hidden", "FRAGMENT")
    library.define("filled(Tensor x, Tensor kept) -> Tensor", tags=[torch.Tag.pointwise])
    library.impl("filled", lambda x, kept: kept.copy_(x) + 1, "CompositeExplicitAutograd")
    library.impl("filled", lambda x, kept: torch.empty_like(x), "Meta")
    register_hidden_writes("prove_hidden::filled", ("kept",))
    refusal = proof_of(torch.ops.prove_hidden.filled, inputs_of((X, X)))[1]
    library._destroy()
    assert isinstance(refusal, Refusal)
    assert "it writes in place" in refusal.reason


def test_N11_rows_of_a_table_are_picked_for_padding_too() -> None:
    table = torch.rand(13, 7)
    inputs = [torch.randint(13, (ROWS, 3))]
    gm = traced(lambda ids: functional.embedding(ids, table), *inputs)
    (symbol,) = [symbol for symbol, value in symbols_of(gm).items() if value == ROWS]
    proof = prove(gm, symbol)
    assert isinstance(proof, Proof), str(proof)
    assert check(gm, proof, inputs) == 1


def test_N11_views_of_one_dtype_as_another_keep_their_rows() -> None:
    inputs = [torch.randint(99, (ROWS, 4))]
    gm, proof = proof_of(lambda ids: ids.view(torch.int32) + 1, inputs)
    assert isinstance(proof, Proof), str(proof)
    assert check(gm, proof, inputs) == 1


@pytest.mark.parametrize(
    ("left", "right"),
    [((ROWS, 3, 4), (4, 6)), ((ROWS, 3, 4), (ROWS, 4, 6)), ((ROWS, 4), (4,)), ((3, ROWS, 4), (2, 1, 4, 6))],
)
def test_N11_a_product_that_a_device_keeps_whole(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    inputs = inputs_of((left, right))
    check(*kept(torch.matmul, aten.matmul.default, inputs), inputs)


def test_N11_a_linear_layer_that_a_device_keeps_whole() -> None:
    inputs = inputs_of(((ROWS, 3, 7), (11, 7), (11,)))
    check(*kept(functional.linear, aten.linear.default, inputs), inputs)


def kept(function: Callable[..., Any], target: Any, inputs: list[Tensor]) -> tuple[Any, Proof]:
    """A graph of one operator, which tracing would take apart, and the proof of it."""
    gm = traced(function, *inputs)
    result: Any = gm.graph.output_node().args[0]
    value = result.meta["val"]
    graph = torch.fx.Graph()
    placeholders = []
    for node in gm.graph.find_nodes(op="placeholder"):
        placeholders.append(graph.placeholder(node.name))
        placeholders[-1].meta["val"] = node.meta["val"]
    result = graph.call_function(target, tuple(placeholders))
    result.meta["val"] = value
    graph.output(result)
    whole = torch.fx.GraphModule(gm, graph)
    (symbol,) = [symbol for symbol, size in symbols_of(whole).items() if size == ROWS]
    proof = prove(whole, symbol)
    assert isinstance(proof, Proof), str(proof)
    return whole, proof


SLOTS = 40


def scattered(cache: Tensor, keys: Tensor, slots: Tensor) -> Tensor:
    return torch.scatter(cache, 0, slots[:, None].expand(-1, 7), keys.relu())


WRITES: dict[str, Callable[..., Any]] = {
    "slots of a cache": lambda cache, keys, slots: torch.index_put(cache, (slots,), keys * 2),
    "rows by index_copy": lambda cache, keys, slots: cache.index_copy(0, slots, keys + 1),
    "rows by scatter": scattered,
    "one number for all": lambda cache, keys, slots: cache.index_fill(0, slots, 3.0) + keys[0],
    "columns by number": lambda cache, keys, slots: aten.index_put(cache.t(), [None, slots], keys.t()),
}
UNSAFE_WRITES: dict[str, tuple[Callable[..., Any], str]] = {
    "what is added up": (lambda cache, keys, slots: torch.index_put(cache, (slots,), keys, True), "added"),
    "slots by position": (
        lambda cache, keys, slots: torch.index_put(cache, (torch.arange(keys.shape[0]),), keys),
        "own place",
    ),
    "slots that depend on the position": (
        lambda cache, keys, slots: torch.index_put(cache, (slots + torch.arange(keys.shape[0]),), keys),
        "own place",
    ),
    "rows that depend on the rows before": (
        lambda cache, keys, slots: torch.index_put(cache, (slots,), keys.cumsum(0)),
        "own place",
    ),
    "rows of a table": (
        lambda cache, keys, slots: torch.index_put(cache, (slots,), cache[: keys.shape[0]]),
        "own place",
    ),
    "copied rows of a table": (
        lambda cache, keys, slots: torch.index_put(
            cache, (slots,), aten.slice_copy(cache, 0, 0, keys.shape[0])
        ),
        "its end is computed from the padded size",
    ),
    "into rows that are padded": (
        lambda cache, keys, slots: torch.index_put(keys, (slots % 2,), cache[0]),
        "some are padding",
    ),
    "to its own row": (
        lambda cache, keys, slots: cache.scatter(1, slots[:, None] % 7, keys[:, :1]),
        "own place",
    ),
    "summed by number": (lambda cache, keys, slots: cache.index_add(0, slots, keys), "added"),
}


def cache_inputs() -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.rand(SLOTS, 7), torch.rand(ROWS, 7), torch.randperm(SLOTS - 1)[:ROWS] + 1]


@pytest.mark.parametrize("name", WRITES)
def test_N11_padding_writes_again_what_the_first_row_writes(name: str) -> None:
    inputs = cache_inputs()
    gm, proof = proof_of(WRITES[name], inputs)
    assert isinstance(proof, Proof), str(proof)
    assert proof.needs_copies
    check(gm, proof, inputs)


@pytest.mark.parametrize("name", UNSAFE_WRITES)
def test_N11_padding_that_would_write_something_else_is_refused(name: str) -> None:
    function, reason = UNSAFE_WRITES[name]
    _, refusal = proof_of(function, cache_inputs())
    assert isinstance(refusal, Refusal), refusal
    assert reason in refusal.reason, refusal.reason


def test_N11_a_proof_that_relies_on_no_copies_says_so() -> None:
    proof = proof_of(torch.relu, inputs_of((X,)))[1]
    assert isinstance(proof, Proof)
    assert not proof.needs_copies


def test_N11_a_row_that_each_row_picks_by_its_position_is_a_copy() -> None:
    def by_row(cache: Tensor, keys: Tensor, slots: Tensor) -> Tensor:
        return torch.index_put(cache, (slots,), keys[torch.arange(keys.shape[0])])

    inputs = cache_inputs()
    gm, proof = proof_of(by_row, inputs)
    assert isinstance(proof, Proof), str(proof)
    check(gm, proof, inputs)


def of_each_row(keys: Tensor) -> Tensor:
    """Rows of a width that is a number, as the columns of a model are."""
    return keys.view(keys.shape[0], 7)


@pytest.mark.parametrize(
    "pick",
    [
        lambda rows, places: rows[:, places][0],
        lambda rows, places: rows[places, places],
        lambda rows, places: rows[places, places.clone()],
    ],
    ids=["of one row", "of its own row", "of its own row by another tensor"],
)
def test_N11_a_column_that_each_row_picks_by_its_position_is_no_copy(pick: Callable[..., Tensor]) -> None:
    def by_column(cache: Tensor, keys: Tensor, slots: Tensor) -> Tensor:
        picked = pick(of_each_row(keys), torch.arange(keys.shape[0]))
        return torch.index_put(cache, (slots,), picked[:, None].expand(-1, 7))

    refusal = proof_of(by_column, cache_inputs())[1]
    assert isinstance(refusal, Refusal)
    assert "own place" in refusal.reason


def test_N11_a_branch_that_the_padded_size_decides_is_refused() -> None:
    environment = ShapeEnv()
    mode = FakeTensorMode(shape_env=environment)
    rows = environment.create_unspecified_symint_and_symbol(ROWS, ConstantSource("rows"), DimDynamic.DYNAMIC)
    graph = torch.fx.Graph()
    size, y, true, false = (graph.placeholder(name) for name in ("size", "y", "true", "false"))
    with mode:
        size.meta["val"], y.meta["val"] = rows, torch.rand(7)
    decides = graph.call_function(operator.gt, (size, 3))
    decides.meta["val"] = rows > 3
    branch = graph.call_function(torch.ops.higher_order.cond, (decides, true, false, (y,)))
    branch.meta["val"] = (y.meta["val"],)
    graph.output((graph.call_function(operator.getitem, (branch, 0)),))
    refusal = prove(torch.fx.GraphModule({}, graph), size.meta["val"].node.expr)
    assert isinstance(refusal, Refusal)
    assert (refusal.node, refusal.reason) == ("cond", "no rule says what it does to padding")
