"""Matrix products: plain, with quantised operands, and the batched one that transposes on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._ir import Fixed, Ir, OrDefault, PackedScale, ReadAs, TypeOfResult
from air_fxpasses.npu_cards._quantise import packed, packs_scale, rounded, unpacked_operand, unpacked_scale
from air_fxpasses.npu_cards._sample import F32, HALF, Draw, Sample
from air_fxpasses.npu_cards._types import FOUR_BITS, SHARED_EXPONENT, Code, type_of, wide
from air_fxpasses.npu_cards.errors import NotCovered
from air_fxpasses.padding._by_rows import by_rows

_FLAG: Final = 1 << 46


def trans_quant_param(scale: Tensor, offset: Tensor | None = None, round_mode: int | None = 0) -> Tensor:
    """A scale of 19 bits and an offset of 9 in one `int64`, as matrix units take them."""
    if round_mode not in (None, 0):
        raise NotCovered("npu_trans_quant_param", f"round_mode {round_mode}")
    bits = scale.to(torch.float32).contiguous().view(torch.int32).to(torch.int64) & 0xFFFFE000 | _FLAG
    if offset is not None:
        nine = wide(offset).round().clamp(-256, 255).to(torch.int64) & 0x1FF
        bits = bits | (nine << 37)
    return bits


def _refuse(operator: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None and value != 0:
            raise NotCovered(operator, f"the argument {name}")


def quant_matmul(
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    *,
    offset: Tensor | None = None,
    pertoken_scale: Tensor | None = None,
    bias: Tensor | None = None,
    output_dtype: Code = None,
    x1_dtype: Code = None,
    x2_dtype: Code = None,
    pertoken_scale_dtype: Code = None,
    scale_dtype: Code = None,
    group_sizes: Sequence[int] | None = None,
    y_scale: Tensor | None = None,
) -> Tensor:
    """`(x1 @ x2 + integer bias) * scale * pertoken_scale + bias + offset`, rounded to `output_dtype`."""
    name = "npu_quant_matmul"
    _refuse(name, x1_dtype=x1_dtype, x2_dtype=x2_dtype, scale_dtype=scale_dtype)
    _refuse(name, pertoken_scale_dtype=pertoken_scale_dtype)
    by_groups = scale.dim() > 1 and scale.shape[-2] > 1
    if y_scale is not None or group_sizes or by_groups:
        raise NotCovered(name, "scales of groups or of the result")
    result = type_of(output_dtype, torch.int8, name)
    if packs_scale(x1.dtype, scale.dtype, pertoken_scale is not None, result):
        scale = trans_quant_param(scale)
    x1 = unpacked_operand(x1)
    x2 = unpacked_operand(x2, x1.shape[-1])
    total = x1.to(torch.float64) @ x2.to(torch.float64)
    integer_bias = bias is not None and bias.dtype == torch.int32
    if bias is not None and integer_bias:
        total = total + bias
    total = total * unpacked_scale(scale)
    if pertoken_scale is not None:
        total = total * wide(pertoken_scale).unsqueeze(-1)
    if bias is not None and not integer_bias:
        total = total + wide(bias)
    if offset is not None:
        total = total + wide(offset)
    return rounded(total, result)


def _spread(scale: Tensor, weight: Tensor, group: int) -> Tensor:
    """One scale per column, for all, or per group of `group` rows of the weight."""
    if group <= 0 or scale.dim() != 2 or scale.shape[0] <= 1:
        return wide(scale)
    return wide(scale).repeat_interleave(group, 0)[: weight.shape[0]]


def weight_quant_batchmatmul(
    x: Tensor,
    weight: Tensor,
    antiquant_scale: Tensor,
    antiquant_offset: Tensor | None = None,
    quant_scale: Tensor | None = None,
    quant_offset: Tensor | None = None,
    bias: Tensor | None = None,
    antiquant_group_size: int = 0,
    inner_precise: int = 0,
    weight_dtype: Code = None,
) -> Tensor:
    """`x @ ((weight + antiquant_offset) * antiquant_scale) + bias`, quantised when `quant_scale` is given."""
    name = "npu_weight_quant_batchmatmul"
    _refuse(name, weight_dtype=weight_dtype)
    weight = unpacked_operand(weight, x.shape[-1])
    values = wide(weight)
    if antiquant_offset is not None:
        values = values + _spread(antiquant_offset, weight, antiquant_group_size)
    out = wide(x) @ (values * _spread(antiquant_scale, weight, antiquant_group_size))
    if bias is not None:
        out = out + wide(bias)
    if quant_scale is None:
        return out.to(x.dtype)
    out = out * unpacked_scale(quant_scale)
    return rounded(out if quant_offset is None else out + wide(quant_offset), torch.int8)


def transpose_batchmatmul(
    input: Tensor,
    weight: Tensor,
    *,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    perm_x1: Sequence[int] | None = None,
    perm_x2: Sequence[int] | None = None,
    perm_y: Sequence[int] | None = None,
    batch_split_factor: int | None = 1,
) -> Tensor:
    """Batched product of the permuted operands, permuted again; `[M, B, N]` with the default orders.

    With `scale` the last two axes become one and the result `int8`. `batch_split_factor` deals the batches
    out to a new first axis.
    """
    name = "npu_transpose_batchmatmul"
    if bias is not None:
        raise NotCovered(name, "a bias")
    _check_orders(perm_x1, perm_x2, perm_y)
    left, right = wide(input).permute(*(perm_x1 or (0, 1, 2))), wide(weight).permute(*(perm_x2 or (0, 1, 2)))
    out = torch.bmm(left, right).permute(*(perm_y or (1, 0, 2)))
    dtype = input.dtype
    if scale is not None:
        out, dtype = out.flatten(1).mul(unpacked_scale(scale)).unsqueeze(1), torch.int8
    split = batch_split_factor or 1
    if split > 1:
        out = out.reshape(out.shape[0], split, -1).transpose(0, 1)
    return rounded(out, dtype).contiguous()


def _check_orders(*orders: Sequence[int] | None) -> None:
    allowed = (((0, 1, 2), (1, 0, 2)), ((0, 1, 2), (0, 2, 1)), ((1, 0, 2),))
    for which, order, known in zip(("perm_x1", "perm_x2", "perm_y"), orders, allowed, strict=True):
        found = tuple(order) if order else known[0]
        text = f"{which} of npu_transpose_batchmatmul is {list(found)}; it may be one of {known}"
        torch._check(found in known, lambda text=text: text)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input @ weight.T + bias`."""
    return torch.nn.functional.linear(*(wide(x) for x in (input, weight, bias) if x is not None)).to(
        input.dtype
    )


def _rows(draw: Draw) -> list[Sample]:
    args = draw.real(3, 16), draw.real(5, 16)
    return [Sample(args), Sample((*args, draw.real(5)), label="bias")]


def _quantised(draw: Draw) -> list[Sample]:
    args = draw.small(4, 64), draw.small(64, 32), draw.positive(32, dtype=F32)
    rows = {"output_dtype": torch.bfloat16, "pertoken_scale": draw.positive(4, dtype=F32)}
    rows["bias"] = torch.arange(32, dtype=torch.int32)
    turned = packed(args[0]), packed(args[1].mT.contiguous()).mT, args[2]
    return [
        Sample(args, {"output_dtype": HALF}),
        Sample(args, rows, "pertoken"),
        Sample((packed(args[0]), packed(args[1]), args[2]), rows, "four_bits"),
        Sample(turned, {"output_dtype": HALF}, "four_bits_turned"),
    ]


def _narrow_weights(draw: Draw) -> list[Sample]:
    args = draw.real(4, 64), draw.small(64, 32), draw.positive(32)
    offset = {"antiquant_offset": draw.positive(32), "bias": draw.positive(32)}
    packs = args[0], packed(args[1]), args[2]
    turned = args[0], packed(args[1].mT.contiguous()).mT, args[2]
    return [
        Sample(args),
        Sample(args, offset, "offset"),
        Sample(packs, offset, "four_bits"),
        Sample(turned, label="four_bits_turned"),
    ]


def _turned(draw: Draw) -> list[Sample]:
    orders = {"perm_x1": [1, 0, 2], "perm_x2": [0, 1, 2], "perm_y": [1, 0, 2], "batch_split_factor": 2}
    return [
        Sample((draw.real(2, 3, 128), draw.real(2, 128, 128))),
        Sample((draw.real(3, 2, 128), draw.real(2, 128, 128)), orders, "split"),
    ]


OPS: Final = (
    NpuOp(
        "npu_trans_quant_param",
        trans_quant_param,
        lambda draw: [Sample((draw.positive(32, dtype=F32),))],
        ir=Ir("TransQuantParamV2"),
    ),
    NpuOp(
        "npu_quant_matmul",
        quant_matmul,
        _quantised,
        ir=Ir(
            "QuantBatchMatmulV3",
            {
                "dtype": TypeOfResult("output_dtype"),
                "x1": ReadAs("x1", "x1_dtype", FOUR_BITS),
                "x2": ReadAs("x2", "x2_dtype", FOUR_BITS, times="x1"),
                "scale": PackedScale("scale", "scale_dtype"),
                "pertoken_scale": ReadAs("pertoken_scale", "pertoken_scale_dtype"),
            },
        ),
    ),
    NpuOp(
        "npu_weight_quant_batchmatmul",
        weight_quant_batchmatmul,
        _narrow_weights,
        ir=Ir(
            "WeightQuantBatchMatmulV2",
            {
                "weight": ReadAs("weight", "weight_dtype", times="x"),
                "antiquant_scale": ReadAs("antiquant_scale", standing_for={torch.uint8: SHARED_EXPONENT}),
            },
        ),
    ),
    NpuOp(
        "npu_transpose_batchmatmul",
        transpose_batchmatmul,
        _turned,
        ir=Ir(
            "TransposeBatchMatMul",
            {
                "x1": "input",
                "x2": "weight",
                "perm_x1": OrDefault("perm_x1", (0, 1, 2)),
                "perm_x2": OrDefault("perm_x2", (0, 1, 2)),
                "perm_y": OrDefault("perm_y", (1, 0, 2)),
                "scale": Fixed(None),
            },
        ),
    ),
    NpuOp(
        "npu_linear",
        linear,
        _rows,
        padding=by_rows("input", mixed=1),
        ir=Ir("MatMulV2", {"x1": "input", "x2": "weight", "transpose_x2": Fixed(True)}),
    ),
)
