"""Values of types that torch does not have: read from the bytes of a tensor, and given back as the bytes of one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from air_geir.building import Context, Value
from air_geir.building._sizes import Sizes
from air_geir.converters import find_converter
from air_geir.converters._foreign_types import held_in, read_as, type_and_shape, type_named
from air_geir.errors import CannotConvert
from air_geir.ir import DataType, Graph, TensorDesc

E5M2, E4M3, HIFLOAT8, FLOAT4, OTHER_FLOAT4 = 291, 292, 290, 296, 297
HALF = torch.bfloat16


def given(graph: Graph, name: str, dtype: torch.dtype, *size: int) -> Value:
    return Value(graph.data(name, TensorDesc(DataType.of(dtype), size)), dtype, size)


def building() -> tuple[Graph, Context]:
    graph = Graph("made")
    return graph, Context(graph, Sizes(graph, hosted=False))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (torch.int8, DataType.INT8),
        (torch.qint8, DataType.INT8),
        (torch.quint4x2, DataType.INT4),
        (16, DataType.INT4),
        (285, DataType.INT4),
        (23, DataType.FLOAT8_E5M2),
        (torch.float8_e8m0fnu, DataType.FLOAT8_E8M0),
        (44, DataType.FLOAT8_E8M0),
        (293, DataType.FLOAT8_E8M0),
        (HIFLOAT8, DataType.HIFLOAT8),
        (FLOAT4, DataType.FLOAT4_E2M1),
        (OTHER_FLOAT4, DataType.FLOAT4_E1M2),
    ],
)
def test_torch_and_torch_npu_number_types(code: Any, kind: DataType) -> None:
    _, ctx = building()
    assert type_named(ctx, code) is kind


@pytest.mark.parametrize("code", [99, 999, None])
def test_a_number_of_no_type_is_refused(code: Any) -> None:
    _, ctx = building()
    with pytest.raises(CannotConvert, match="is no type"):
        type_named(ctx, code)


@pytest.mark.parametrize(
    ("dtype", "kind", "dims"),
    [
        (torch.int32, DataType.INT4, (3, 32)),
        (torch.uint8, DataType.FLOAT4_E2M1, (3, 8)),
        (torch.uint8, DataType.HIFLOAT8, (3, 4)),
        (torch.int8, DataType.INT8, (3, 4)),
    ],
)
def test_bytes_are_read_in_another_type_and_given_back(
    dtype: torch.dtype, kind: DataType, dims: tuple[int, ...]
) -> None:
    graph, ctx = building()
    read = read_as(ctx, given(graph, "x", dtype, 3, 4), kind)
    assert (read.port.desc.dtype, read.dims) == (kind, dims)
    back = held_in(ctx, read, torch.empty(3, 4, dtype=dtype, device="meta"))
    assert (back.port.desc.dtype, back.dims, back.dtype) == (DataType.of(dtype), (3, 4), dtype)


def test_a_right_operand_that_was_turned_after_packing_is_opened_along_its_rows() -> None:
    graph, ctx = building()
    left = given(graph, "x", HALF, 5, 32)
    turned = read_as(ctx, given(graph, "w", torch.int32, 4, 6), DataType.INT4, left)
    assert turned.dims == (32, 6)
    assert [node.op_type for node in graph if node.op_type not in ("Data", "Const")] == [
        "Transpose", "Bitcast", "Reshape", "Transpose",
    ]  # fmt: skip
    assert read_as(ctx, given(graph, "v", torch.int32, 32, 6), DataType.INT4, left).dims == (32, 48)
    with pytest.raises(CannotConvert, match="does not tell along which axis"):
        read_as(ctx, given(graph, "u", torch.int32, 5, 6), DataType.INT4, left)


@pytest.mark.parametrize(
    ("dtype", "kind", "size"),
    [
        (torch.float8_e5m2, DataType.FLOAT8_E4M3FN, (4,)),
        (torch.uint8, DataType.FLOAT16, (4,)),
        (torch.int32, DataType.INT4, ()),
    ],
    ids=["another float", "a wider type", "a single number"],
)
def test_what_cannot_be_read_in_another_type_is_refused(
    dtype: torch.dtype, kind: DataType, size: tuple[int, ...]
) -> None:
    graph, ctx = building()
    with pytest.raises(CannotConvert):
        read_as(ctx, given(graph, "x", dtype, *size), kind)


def test_a_result_that_cannot_hold_the_type_asked_for_is_refused() -> None:
    _, ctx = building()
    with pytest.raises(CannotConvert, match="cannot hold"):
        type_and_shape(ctx, "dtype", {"dtype": torch.float32}, torch.empty(2, dtype=torch.int8))


def empty(dtype: torch.dtype, *size: int) -> torch.Tensor:
    return torch.empty(size, dtype=dtype, device="meta")


X = empty(HALF, 4, 128)
PAIRS = empty(torch.uint8, 4, 64)
ENDS = empty(torch.int32, 2)
NARROW = (E5M2, E4M3, FLOAT4, OTHER_FLOAT4)
#: Operator -> the tensors it is given, and the types it is asked for.
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any], str, tuple[Any, ...]]] = {
    "npu_add_rms_norm_dynamic_mx_quant": ((X, X, empty(HALF, 128)), {}, "dst_type", NARROW),
    "npu_anti_mx_quant": (
        (PAIRS, empty(torch.uint8, 4, 2, 2)),
        {"dst_type": 15},
        "src_type",
        (FLOAT4, OTHER_FLOAT4),
    ),
    "npu_anti_quant": ((empty(torch.int32, 4, 16), empty(HALF, 128)), {}, "dst_dtype", (5, 15)),
    "npu_dynamic_block_mx_quant": ((X,), {}, "dst_type", NARROW),
    "npu_dynamic_block_quant": ((X,), {}, "dst_type", (1, E5M2, E4M3, HIFLOAT8)),
    "npu_dynamic_mx_quant": ((X,), {}, "dst_type", NARROW),
    "npu_dynamic_mx_quant_with_dual_axis": ((X,), {}, "dst_type", NARROW),
    "npu_dynamic_quant": ((X,), {}, "dst_type", (1, 16, 23, 24, HIFLOAT8)),
    "npu_dynamic_quant_asymmetric": ((X,), {}, "dst_type", (1, 16, 23, 24, HIFLOAT8)),
    "npu_dtype_cast": ((X,), {}, "dtype", (1, 23, HIFLOAT8, FLOAT4, OTHER_FLOAT4)),
    "npu_grouped_dynamic_mx_quant": ((X, ENDS), {}, "dst_type", (23, 24, FLOAT4, OTHER_FLOAT4)),
    "npu_kronecker_quant": (
        (empty(HALF, 4, 16, 64), empty(HALF, 16, 16), empty(HALF, 64, 64)),
        {},
        "dst_dtype",
        (3,),
    ),
    "npu_quantize": (
        (X, empty(torch.float32, 128), None),
        {"axis": -1, "div_mode": False},
        "dtype",
        (torch.qint8, torch.quint4x2),
    ),
    "npu_quant_max": ((X, empty(torch.float32, 1)), {}, "dst_dtype", (E5M2, E4M3, HIFLOAT8)),
    "npu_rms_norm_dynamic_mx_quant": ((X, empty(HALF, 128)), {}, "dst_type", NARROW),
    "npu_rotate_quant": ((X, empty(HALF, 128, 128)), {}, "dst_dtype", (1, 16)),
    "npu_swiglu_mx_quant": ((X,), {}, "dst_type", NARROW),
}
NAMED = [(name, code) for name, call in CALLS.items() for code in call[3]]


@pytest.mark.npu("torch_npu says what its operators give")
@pytest.mark.parametrize(("name", "code"), NAMED)
def test_N03_a_result_of_a_type_that_torch_does_not_have_is_the_bytes_that_torch_npu_says(
    name: str, code: Any
) -> None:
    args, named, argument, _ = CALLS[name]
    operator = getattr(torch.ops.npu, name).default
    named = named | {argument: code}
    metas = operator(*args, **named)
    graph, ctx = building()
    values = [
        given(graph, f"x{at}", one.dtype, *one.shape) if isinstance(one, torch.Tensor) else one
        for at, one in enumerate(args)
    ]
    converter = find_converter(operator)
    assert converter is not None
    with ctx.converting(metas):
        results = converter.function(ctx, *values, **named)
    expected = metas if isinstance(metas, tuple) else (metas,)
    found = results if isinstance(results, tuple) else (results,)
    for value, meta in zip(found, expected, strict=True):
        assert value.port.desc.dtype == DataType.of(meta.dtype)
        assert value.shape in (None, tuple(meta.shape))


@pytest.mark.npu("torch_npu says what its operators give")
def test_a_result_that_the_operator_type_never_gives_is_zeros() -> None:
    operator: Any = torch.ops.npu.npu_rms_norm_dynamic_mx_quant.default
    graph, ctx = building()
    converter = find_converter(operator)
    assert converter is not None
    with ctx.converting(operator(X, empty(HALF, 128))):
        *_, deviation = converter.function(ctx, given(graph, "x", HALF, 4, 128), given(graph, "w", HALF, 128))
    assert (deviation.port.node.op_type, deviation.dims, deviation.dtype) == ("Fill", (4, 1), torch.float32)


@pytest.mark.npu("torch_npu says what its operators give")
def test_what_the_engine_gives_in_another_type_than_torch_states_is_converted() -> None:
    operator: Any = torch.ops.npu.npu_group_norm_silu.default
    x, weight = empty(torch.float16, 2, 4, 6), empty(torch.float32, 4)
    graph, ctx = building()
    values = given(graph, "x", x.dtype, *x.shape), *(given(graph, n, torch.float32, 4) for n in ("w", "b"))
    converter = find_converter(operator)
    assert converter is not None
    with ctx.converting(operator(x, weight, weight, 2)):
        found = converter.function(ctx, *values, 2)
    assert [value.dtype for value in found] == [torch.float16, torch.float32, torch.float32]
    assert [value.port.node.op_type for value in found] == ["GroupNormSilu", "Cast", "Cast"]
