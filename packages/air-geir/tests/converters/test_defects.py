"""Graphs that were silently wrong, or silently incomplete, in the converters this package replaces."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from air_geir import compile_graph, converts
from air_geir.converters import unregister
from air_geir.errors import ConverterFailed, UnsupportedGraphError
from air_geir.proof import check_call, compile_call

aten = torch.ops.aten


def check(function: Callable[..., Any], *args: Any, types: Sequence[str] = ()) -> None:
    """Equal to eager with static and with dynamic sizes; the graph holds these operator types."""
    for dynamic in (False, True):
        run = check_call(function, args, {}, dynamic=dynamic)
        found = {node.op_type for node in run.program.graph}
        assert set(types) <= found


def test_a_constant_made_from_a_view_has_the_elements_of_the_view() -> None:
    base = torch.arange(12.0).reshape(3, 4)
    transposed, sliced, expanded = base.t(), base[1:, 1:3], base[:1].expand(3, 4)
    check(
        lambda x: (x + transposed.sum(), x[0, 0] * sliced, x[0, 0] + expanded, x[0, 0] * transposed),
        torch.ones(2, 2),
    )


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_follows_approximate(approximate: str) -> None:
    check(lambda x: F.gelu(x, approximate=approximate), torch.randn(50), types=["GeluV2"])


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_average_pooling_counts_the_padding_only_when_asked(include: bool, dtype: torch.dtype) -> None:
    x = torch.randn(1, 2, 6, 6).to(dtype)
    check(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=include), x, types=["AvgPoolV2"])


def test_max_pooling_gives_true_indices() -> None:
    check(lambda x: F.max_pool2d(x, 2, return_indices=True), torch.randn(2, 3, 6, 6))


def test_argmax_keeps_the_rank_without_a_dim() -> None:
    check(lambda x: torch.argmax(x, keepdim=True), torch.randn(3, 4))


def test_argmax_of_large_integers_is_exact() -> None:
    x = torch.tensor([[2**24, 2**24 + 1, 2**24], [2**53, 2**53 + 1, 0]])
    check(lambda x: torch.argmax(x, 1, keepdim=True), x)


def test_division_that_truncates_is_exact_for_large_integers() -> None:
    x, y = torch.tensor([2**53 + 1, -(2**53) - 1, -7]), torch.tensor([1, 1, 2])
    check(lambda x, y: torch.div(x, y, rounding_mode="trunc"), x, y, types=["TruncateDiv"])


def test_a_boolean_mask_picks_where_it_is_true() -> None:
    x = torch.randn(4, 3)
    for mask in (torch.tensor([True, False, True, True]), torch.rand(4, 3) > 0.5):
        run = check_call(lambda x, m: x[m], (x, mask), {}, dynamic=True)
        assert any(node.op_type == "NonZero" for node in run.program.graph)


def test_a_mask_assigns_where_it_is_true() -> None:
    mask = torch.tensor([True, False, True, True])
    check(lambda x, m: x.index_put((m,), torch.tensor(7.0)), torch.randn(4, 3), mask)


def test_negative_indices_count_from_the_end() -> None:
    check(lambda x, i: x[:, i], torch.randn(3, 5), torch.tensor([-1, 0, -5]))
    check(
        lambda x, i, v: aten.index_put(x, [None, i], v),
        torch.randn(3, 5),
        torch.tensor([-1, 1]),
        torch.ones(3, 2),
    )


def test_layer_norm_of_mixed_types_is_promoted() -> None:
    x, weight, bias = torch.randn(2, 8).bfloat16(), torch.randn(8), torch.randn(8)
    check(lambda x, w, b: aten.native_layer_norm(x, [8], w, b, 1e-5), x, weight, bias)


def test_a_dynamic_size_stays_dynamic() -> None:
    run, _ = compile_call(lambda x: x.reshape(-1) + 1, (torch.randn(3, 4),), {}, dynamic=True)
    assert torch.equal(run(torch.ones(5, 6))[0], torch.full((30,), 2.0))
    assert run.program.graph.inputs[0].output.desc.file_shape() == (-1, -1)


def test_size_arithmetic_knows_floor_division_remainder_and_extremes() -> None:
    def sizes(x: torch.Tensor) -> Any:
        n = x.shape[0]
        return x.new_zeros(n // 2 + n % 3 + max(n, 4) * min(n, 3))

    run, _ = compile_call(sizes, (torch.randn(7),), {}, dynamic=True)
    assert run(torch.randn(7))[0].shape == sizes(torch.randn(7)).shape


def test_reseeding_changes_what_a_compiled_graph_draws() -> None:
    run, _ = compile_call(lambda x: torch.rand_like(x), (torch.ones(100),), {})
    torch.manual_seed(1)
    first, second = run(torch.ones(100))[0], run(torch.ones(100))[0]
    torch.manual_seed(1)
    again = run(torch.ones(100))[0]
    torch.manual_seed(2)
    other = run(torch.ones(100))[0]
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("how", ["band", "bor", "bxor"])
def test_bitwise_reductions_are_refused_by_name(how: str) -> None:
    def reduce(x: torch.Tensor) -> Any:
        return torch.ops._c10d_functional.all_reduce(x, how, "0")

    gm = torch.fx.symbolic_trace(reduce)
    for node in gm.graph.nodes:
        node.meta["val"] = torch.ones(2) if node.op != "output" else None
        if node.op == "call_function":
            node.target = torch.ops._c10d_functional.all_reduce.default
    with pytest.raises(UnsupportedGraphError, match=how):
        compile_graph(gm, [torch.ones(2)])


def test_a_negated_size_is_a_number_of_the_graph() -> None:
    check(lambda x: (x + -x.shape[0], x[-(x.shape[0] // 2) :]), torch.randn(5, 2))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8])
def test_a_number_beside_a_tensor_of_whole_numbers_takes_its_type(dtype: torch.dtype) -> None:
    check(lambda x: (x * 3, x + 1, torch.clamp(x, 2, 5)), torch.arange(7).to(dtype))


class Odd(Exception):
    """An error whose constructor takes more than a text."""

    def __init__(self, code: int, place: str) -> None:
        super().__init__(f"{code} at {place}")
        self.code = code


def test_an_error_inside_a_converter_is_the_cause_as_it_was_raised() -> None:
    library = torch.library.Library("geir_defects_test", "DEF")
    library.define("odd(Tensor x) -> Tensor")
    library.impl("odd", torch.clone, "CompositeExplicitAutograd")
    op = torch.ops.geir_defects_test.odd.default

    def broken(ctx: Any, x: Any) -> Any:
        raise Odd(7, "here") from KeyError("the cause")

    converts(op)(broken)
    try:
        with pytest.raises(ConverterFailed, match=r"geir_defects_test\.odd.* raised Odd") as caught:
            compile_call(op, (torch.ones(2),), {})
    finally:
        unregister(op)
    odd = caught.value.__cause__
    assert isinstance(odd, Odd)
    assert odd.code == 7
    assert isinstance(odd.__cause__, KeyError)
    assert traceback.extract_tb(odd.__traceback__)[-1].name == "broken"


def test_every_missing_operator_is_listed_once_with_its_places() -> None:
    def unsupported(x: torch.Tensor) -> Any:
        a, _ = torch.linalg.qr(x)
        b, _ = torch.linalg.qr(x + 1)
        return a, b, torch.linalg.svdvals(x)

    with pytest.raises(UnsupportedGraphError) as caught:
        compile_call(unsupported, (torch.randn(3, 3),), {})
    targets = {u.target for u in caught.value.found}
    assert {"aten.linalg_qr.default", "aten._linalg_svd.default"} <= targets
    assert sum(u.target == "aten.linalg_qr.default" for u in caught.value.found) == 2
    assert "writing-a-converter" in str(caught.value)


def test_an_integer_and_a_fraction_are_promoted_like_torch_does() -> None:
    check(lambda x, y: x + y, torch.arange(3, dtype=torch.int16), torch.tensor(1.5))
    check(lambda x: x * 2.5, torch.arange(3, dtype=torch.uint8))
    check(lambda x, y: x > y, torch.arange(3, dtype=torch.int8), torch.tensor([0.5, 1.0, 2.5]))
