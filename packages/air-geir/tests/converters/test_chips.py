"""What a graph may ask of a chip: operators that every chip has, with the types and attributes that they have there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from air_geir.converters import Converter, all_converters, resolve
from air_geir.ir import DataType, Format, Node
from air_geir.proof import check_call, compile_call

#: Of Ascend 950 alone, or with the layout of torch there alone.
OF_FEW_CHIPS = {
    "AvgPool3D", "GroupNormGrad", "GroupNormV2", "MaxPoolGradWithArgmaxV3", "MaxPoolWithArgmaxV3", "ReduceStdV2",
}  # fmt: skip
#: torch 2.11 says that the counts nobody asked for have another type.
WITH_SAMPLES = [c for c in all_converters() if c.samples and c.target != "aten._unique2.default"]
HALVES = [torch.float16, torch.bfloat16]
POOLS = [
    lambda x: torch.ops.aten.max_pool2d_with_indices(x, [3, 2], [2, 2], [1, 0], 1, True),
    lambda x: torch.ops.aten.max_pool2d_with_indices(x[0], 2),
    lambda x: torch.ops.aten.max_pool3d_with_indices(x[:, None], [2, 3, 2], 1, [1, 0, 1]),
]


def nodes(call: Callable[[Tensor], Any], x: Tensor) -> list[Node]:
    return list(check_call(call, (x,), {}).program.graph)


def of_type(found: list[Node], op_type: str) -> Node:
    (node,) = (node for node in found if node.op_type == op_type)
    return node


@pytest.mark.parametrize("converter", WITH_SAMPLES, ids=lambda c: c.target)
def test_N03_no_converter_asks_for_an_operator_that_few_chips_have(converter: Converter) -> None:
    for sample in converter.samples:
        operator: Any = resolve(converter.target)
        run, _ = compile_call(operator, *sample.make())
        assert OF_FEW_CHIPS.isdisjoint(node.op_type for node in run.program.graph)
        assert all(node.attr("N") > 1 for node in run.program.graph.of_type("ConcatV2"))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
@pytest.mark.parametrize("pool", POOLS)
def test_N03_the_window_of_a_largest_element_has_three_numbers_and_its_place_is_an_int32(
    pool: Callable[[Tensor], Any], dtype: torch.dtype
) -> None:
    node = of_type(nodes(pool, torch.randn(2, 3, 8, 6).to(dtype)), "MaxPool3DWithArgmaxV2")
    assert {len(node.attrs[name].value) for name in ("ksize", "strides", "pads", "dilation")} == {3}
    assert node.outputs[1].desc.dtype is DataType.INT32
    assert node.outputs[0].desc.format is Format.NCDHW


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 5, 4), (2, 3, 2, 5, 4), (2, 3, 2, 2, 5, 4)])
def test_N03_a_batch_norm_in_inference_is_one_of_images_with_settings_in_single_precision(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    settings = [torch.rand(3).add(0.5).to(dtype) for _ in range(4)]

    def norm(x: Tensor) -> Any:
        return torch.ops.aten._native_batch_norm_legit_no_training(x, *settings, 0.1, 1e-5)[0]

    found = nodes(norm, torch.randn(shape).to(dtype))
    node = of_type(found, "BNInfer")
    fed = [port for port in node.inputs if port is not None]
    assert [port.desc.dtype for port in fed[1:]] == [DataType.FLOAT] * 4
    assert len(fed[0].desc.shape or ()) == 4
    assert {node.input_descs[slot].format for slot in range(5)} == {Format.NCHW}


@pytest.mark.parametrize("settings", [None, torch.float32], ids=["alike", "float32 weights"])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
def test_N03_a_group_norm_takes_one_type_that_every_chip_has(
    dtype: torch.dtype, settings: torch.dtype | None
) -> None:
    norm = torch.nn.GroupNorm(2, 4).to(settings or dtype)
    found = nodes(norm, torch.randn(2, 4, 5, 3).to(dtype))
    types = {port.desc.dtype for port in of_type(found, "GroupNorm").inputs if port is not None}
    assert types in ({DataType.FLOAT}, {DataType.FLOAT16})


def test_N03_a_group_norm_of_an_empty_batch_is_empty() -> None:
    nodes(lambda x: torch.nn.functional.group_norm(x, 2), torch.randn(0, 4, 5))


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("ceil", [True, False])
@pytest.mark.parametrize("divisor", [None, 7])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES], ids=str)
def test_N03_a_mean_of_volumes_is_one_of_planes_and_one_in_depth(
    include: bool, ceil: bool, divisor: int | None, dtype: torch.dtype
) -> None:
    def pooled(x: Tensor) -> Tensor:
        return torch.nn.functional.avg_pool3d(x, (2, 3, 2), (2, 1, 2), (1, 1, 0), ceil, include, divisor)

    x = torch.randn(2, 3, 5, 6, 7).to(dtype)
    run, given = compile_call(pooled, (x,), {})
    assert [node.op_type for node in run.program.graph].count("AvgPoolV2") == 2
    torch.testing.assert_close(run(*given)[0], pooled(x.float()).to(dtype))  # the CPU pools no halves


@pytest.mark.parametrize("p", [float("inf"), float("-inf"), 0.0, 1.0, 2.5])
def test_N03_a_norm_spells_no_infinity_and_adds_nothing(p: float) -> None:
    x = torch.randn(3, 4)
    x[1] = 0
    found = nodes(lambda x: (torch.linalg.vector_norm(x, p, 1), torch.cdist(x, x + 1, abs(p))), x)
    norms = [node for node in found if node.op_type == "LpNormV2"]
    assert len(norms) == (0 if math.isinf(p) else 2)
    assert all(node.attrs["epsilon"].value == 0.0 for node in norms)


WIDER: dict[str, tuple[Callable[[Tensor], Any], torch.dtype, torch.dtype]] = {
    "CumulativeLogsumexp": (lambda x: torch.logcumsumexp(x, 0), torch.bfloat16, torch.float32),
    "GridSampler2D": (
        lambda x: torch.nn.functional.grid_sample(x[None, None], x[None, :, None, :2], align_corners=False),
        torch.bfloat16, torch.float32,
    ),
    "SearchSorted": (lambda x: torch.searchsorted(x[0].sort().values, x), torch.bfloat16, torch.float32),
    "MaskedFill": (lambda x: x.masked_fill(x > 1, 3), torch.uint8, torch.int32),
    "Neg": (lambda x: -x, torch.uint8, torch.int32),
    "Maximum": (lambda x: torch.clamp_min(x, x.flip(0)), torch.bool, torch.uint8),
    "InplaceIndexAdd": (lambda x: x.index_add(1, torch.tensor([0, 3]), x[:, :2]), torch.bfloat16, torch.float32),
    "ResizeBilinearV2": (
        lambda x: torch.nn.functional.interpolate(x[None, None], scale_factor=2, mode="bilinear"),
        torch.bfloat16, torch.float32,
    ),
    "Sort": (lambda x: x.sort(stable=True), torch.bool, torch.uint8),
}  # fmt: skip


@pytest.mark.parametrize("op_type", WIDER)
def test_N03_an_operator_that_does_not_take_a_type_computes_in_a_wider_one(op_type: str) -> None:
    call, given, wide = WIDER[op_type]
    x = (torch.randn(4, 4) * 2).abs().to(given)
    run, tensors = compile_call(call, (x,), {})
    port = of_type(list(run.program.graph), op_type).inputs[0]
    assert port is not None
    assert port.desc.dtype is DataType.of(wide)
    expected = call(x.float()) if given is torch.bfloat16 else call(x)  # eager rounds each step in between
    for got, want in zip(run(*tensors), tree_leaves(expected), strict=True):
        torch.testing.assert_close(got, want.to(got.dtype))


def test_N03_a_gradient_that_is_no_number_stays_with_the_elements_of_its_window() -> None:
    def gradient(x: Tensor, grad: Tensor) -> Any:
        return torch.ops.aten.avg_pool3d_backward(grad, x, [2, 2, 2], [2, 2, 2], [0, 0, 0], False, True, None)

    grad = torch.randn(1, 1, 2, 2, 2)
    grad[0, 0, 0, 0, 0] = torch.nan
    x = torch.randn(1, 1, 4, 4, 4)
    check_call(gradient, (x, grad), {})
    assert gradient(x, grad).isnan().sum() == 8


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64], ids=str)
def test_N03_pooling_of_types_that_no_chip_pools_is_refused(dtype: torch.dtype) -> None:
    x = torch.arange(16).reshape(1, 1, 4, 4).to(dtype)
    with pytest.raises(Exception, match="pooling has no operator for"):
        compile_call(lambda x: torch.nn.functional.max_pool2d(x, 2), (x,), {})


def test_N03_a_single_index_that_counts_from_the_end_is_left_to_the_operator() -> None:
    x, at = torch.randn(4, 5, 3), torch.tensor([[0, -1], [-5, 4]])
    found = nodes(lambda x: x[:, at], x)
    assert of_type(found, "GatherV2").attrs["negative_index_support"].value is True
    assert "SelectV2" not in {node.op_type for node in found}


def test_N03_what_is_joined_alone_is_no_join() -> None:
    x = torch.randn(2, 3)
    found = nodes(lambda x: (torch.cat([x], 1), torch.cat([x, x[:0, :0].reshape(0)])), x)
    assert "ConcatV2" not in {node.op_type for node in found}


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize(("scan", "op_type"), [(torch.cummin, "Cummin"), (torch.cummax, "Cummax")])
def test_N03_running_extremes_go_along_the_first_axis_and_say_where_they_were_in_int32(
    scan: Callable[..., Any], op_type: str, dim: int
) -> None:
    node = of_type(nodes(lambda x: scan(x, dim), torch.randn(4, 5, 3)), op_type)
    assert [port.desc.dtype for port in node.outputs] == [DataType.FLOAT, DataType.INT32]
    assert {attr.value for attr in node.attrs.values()} == {0}


def test_N03_the_bags_of_a_sum_are_no_result_of_the_operator_where_torch_says_there_are_none() -> None:
    indices, offsets = torch.tensor([0, 1, 2, 1]), torch.tensor([0, 2])

    def bags(weight: Tensor) -> Any:
        return torch.ops.aten._embedding_bag(weight, indices, offsets)[:2]

    assert of_type(nodes(bags, torch.randn(3, 2)), "EmbeddingBag").outputs[1].num_uses == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda x, at: torch.ops.aten.index_put(x, [None, None, at], torch.ones(3)),
        lambda x, at: torch.ops.aten.index_put(x, [at, None, at[:, None]], torch.tensor(2.0)),
        lambda x, at: x.index_copy(2, at, torch.ones(4, 4, 3)),
        lambda x, at: torch.slice_scatter(x, torch.ones(4, 2, 4), 1, 1, 3),
        lambda x, at: torch.select_scatter(x, torch.ones(4, 4), 1, -1),
    ],
)
def test_N03_indices_of_an_assignment_are_of_the_first_axes_and_of_one_shape_with_as_many_values(
    call: Callable[..., Any],
) -> None:
    x, at = torch.randn(4, 4, 4), torch.tensor([1, 3, 0])
    found = list(check_call(call, (x, at), {}).program.graph)
    for node in (node for node in found if node.op_type == "IndexPutV2"):
        flags = node.inputs[2]
        assert flags is not None
        used = flags.node.attr("value").tensor().tolist()
        assert set(used) == {1}
        value, *indices = (port.desc.shape for port in (node.inputs[1], *node.inputs[4:]) if port is not None)
        assert len(indices) == len(used)
        assert len(set(indices)) == 1
        assert value == (*(indices[0] or ()), *x.shape[len(used) :])
    assert len({"IndexPutV2", "ViewCopy"} & {node.op_type for node in found}) == 1


def test_N03_elements_are_rolled_by_slices_that_change_places() -> None:
    found = nodes(lambda x: (x.roll((1, -2), (0, 1)), x.roll(3), x.roll(0, 0)), torch.randn(4, 5))
    assert "Roll" not in {node.op_type for node in found}


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_N03_elements_are_ordered_along_the_last_axis_and_bfloat16_in_single_precision(
    dtype: torch.dtype, dim: int
) -> None:
    found = nodes(lambda x: (x.sort(dim=dim, stable=True), x.topk(2, dim)), torch.randn(3, 4, 5).to(dtype))
    ordered, largest = of_type(found, "Sort"), of_type(found, "TopKV2")
    assert (ordered.attr("axis"), largest.attr("dim")) == (2, 2)
    assert ordered.outputs[0].desc.dtype is DataType.FLOAT


@pytest.mark.parametrize(
    "call",
    [
        lambda x, mask: torch.ops.aten.index_put(x, [mask], torch.tensor(-torch.inf)),
        lambda x, mask: torch.ops.aten.index_put(x, [None, mask[0]], torch.ones(1)),
        lambda x, mask: torch.ops.aten.index_put(x, [mask[:, 0]], torch.tensor(2.0)),
        lambda x, mask: torch.ops.aten.index_put(x, [mask.all()], torch.tensor(2.0)),
    ],
)
def test_N03_a_number_written_through_a_mask_is_chosen_and_nothing_is_counted(
    call: Callable[..., Any],
) -> None:
    x, mask = torch.randn(3, 4, 2), torch.rand(3, 4) > 0.5
    found = {node.op_type for node in check_call(call, (x, mask), {}).program.graph}
    assert "SelectV2" in found
    assert found.isdisjoint({"NonZero", "IndexPutV2"})
