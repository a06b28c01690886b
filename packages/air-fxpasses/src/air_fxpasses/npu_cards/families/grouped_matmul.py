"""Grouped matrix products: one product per expert.

| group_type | x | groups |
|---|---|---|
| -1 | one per weight | none: each `x` with its weight |
| 0 | one | consecutive rows of `x`, a weight each |
| 2 | one | consecutive columns of `x` and rows of the weight: one product each |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._quantise import packed, rounded, unpacked_operand, unpacked_scale
from air_fxpasses.npu_cards._sample import F32, Draw, Sample
from air_fxpasses.npu_cards._types import Code, type_of, wide
from air_fxpasses.npu_cards.errors import NotCovered

_NAME: Final = "npu_grouped_matmul"
_ACTIVATIONS: Final[dict[int, Callable[[Tensor], Tensor]]] = {
    0: lambda x: x,
    1: functional.relu,
    2: lambda x: functional.gelu(x, approximate="tanh"),
    4: lambda x: x * torch.sigmoid(1.702 * x),
    5: functional.silu,
}
Lists = Sequence[Tensor] | None


def _of(tensors: Lists, group: int) -> Tensor | None:
    """What belongs to a group: one tensor of the list, or one slice of a single tensor."""
    if not tensors:
        return None
    return tensors[group] if len(tensors) > 1 else tensors[0][group]


def _ends(group_list: Tensor | Sequence[int] | None, kind: int, groups: int) -> list[int]:
    if group_list is None:
        raise NotCovered(_NAME, "one x for several weights without a group_list")
    given = group_list if isinstance(group_list, Tensor) else torch.tensor(group_list)
    given = given.to(torch.int64)
    if kind == 2:
        given = given.new_zeros(groups).scatter_(0, given[:, 0], given[:, 1])
    return [int(end) for end in (given if kind == 0 else given.cumsum(0))]


def _of_rows(scale: Tensor, weight: Tensor) -> Tensor:
    """A scale or offset for each row of the weight, where groups of rows have one of their own."""
    groups = scale.shape[0] if scale.dim() > 1 else 1
    return scale if groups == 1 else scale.repeat_interleave(weight.shape[0] // groups, 0)


def _product(
    x: Tensor, group: int, weight: Tensor, options: dict[str, Any], row_scale: Tensor | None
) -> Tensor:
    is_integer = not x.is_floating_point()
    left, right = (t.to(torch.float64) if is_integer else wide(t) for t in (x, weight))
    for name, apply in (("antiquant_offset", torch.add), ("antiquant_scale", torch.mul)):
        part = _of(options[name], group)
        right = right if part is None else apply(right, _of_rows(wide(part), right))
    out, bias = left @ right, _of(options["bias"], group)
    if bias is not None and bias.dtype == torch.int32:
        out = out + bias
    scale = _of(options["scale"], group)
    if scale is not None and scale.dim() > 1 and scale.shape[-2] > 1:
        raise NotCovered(_NAME, "a scale for each of several groups of rows of a weight")
    out = out if scale is None else out * unpacked_scale(scale)
    out = out if row_scale is None else out * wide(row_scale).unsqueeze(-1)
    if bias is not None and bias.dtype != torch.int32:
        out = out + wide(bias)
    return _ACTIVATIONS[options["act_type"]](out)


def grouped_matmul(
    x: Sequence[Tensor],
    weight: Sequence[Tensor],
    *,
    bias: Lists = None,
    scale: Lists = None,
    antiquant_scale: Lists = None,
    antiquant_offset: Lists = None,
    per_token_scale: Lists = None,
    group_list: Tensor | Sequence[int] | None = None,
    split_item: int | None = 0,
    group_type: int | None = None,
    group_list_type: int | None = 0,
    act_type: int | None = 0,
    output_dtype: Code = None,
    **options: Any,
) -> list[Tensor]:
    """One result per group, or all of them in one tensor (`split_item` 2 and 3)."""
    _refuse(act_type or 0, options)
    dtype = type_of(output_dtype, x[0].dtype, _NAME)
    x = [unpacked_operand(one) for one in x]
    weight = [unpacked_operand(one, x[0].shape[-1]) for one in weight]
    if group_type == 2:
        return _by_depth(x[0], weight, _ends(group_list, group_list_type or 0, 0), dtype)
    given = {
        "bias": bias,
        "scale": scale,
        "antiquant_scale": antiquant_scale,
        "antiquant_offset": antiquant_offset,
        "act_type": act_type or 0,
    }
    if len(x) > 1 or group_list is None:
        scales: Sequence[Tensor | None] = per_token_scale or [None] * len(x)
        found = [
            _product(r, g, w, given, s) for g, (r, w, s) in enumerate(zip(x, weight, scales, strict=True))
        ]
    else:
        groups = len(weight) if len(weight) > 1 else weight[0].shape[0]
        ends = _ends(group_list, group_list_type or 0, groups)
        bounds = list(zip([0, *ends[:-1]], ends, strict=True))
        rows = per_token_scale[0] if per_token_scale else None
        found = []
        for g, (a, b) in enumerate(bounds):
            w = _of(weight, g)
            assert w is not None
            found.append(_product(x[0][a:b], g, w, given, None if rows is None else rows[a:b]))
    if split_item in (2, 3):
        total = torch.cat(found)
        behind = sum(t.shape[0] for t in x) - total.shape[0]
        found = [functional.pad(total, (0, 0, 0, behind))]
    return [rounded(r, dtype) for r in found]


def _by_depth(x: Tensor, weight: Sequence[Tensor], ends: list[int], dtype: torch.dtype) -> list[Tensor]:
    products = []
    for group, (a, b) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        right = weight[0][a:b] if len(weight) == 1 else weight[group]
        products.append(wide(x)[:, a:b] @ wide(right))
    return [torch.stack(products).to(dtype)]


def _refuse(act_type: int, options: dict[str, Any]) -> None:
    if act_type not in _ACTIVATIONS:
        raise NotCovered(_NAME, f"act_type {act_type}")
    for name, value in options.items():
        if value is not None and name not in ("tuning_config", "offset"):
            raise NotCovered(_NAME, f"the argument {name}")
    if options.get("offset"):
        raise NotCovered(_NAME, "the argument offset")


def _fake(
    x: Sequence[Tensor],
    weight: Sequence[Tensor],
    *,
    group_list: Tensor | Sequence[int] | None = None,
    split_item: int | None = 0,
    group_type: int | None = None,
    output_dtype: Code = None,
    **options: Any,
) -> list[Tensor]:
    dtype = type_of(output_dtype, x[0].dtype, _NAME)
    x = [unpacked_operand(one) for one in x]
    weight = [unpacked_operand(one, x[0].shape[-1]) for one in weight]
    columns = weight[0].shape[-1]
    if group_type == 2:
        count = group_list.shape[0] if isinstance(group_list, Tensor) else len(group_list or ())
        return [x[0].new_empty((count, x[0].shape[0], columns), dtype=dtype)]
    if split_item in (2, 3):
        rows = sum(t.shape[0] for t in x[1:]) + x[0].shape[0]
        return [x[0].new_empty((rows, columns), dtype=dtype)]
    if len(x) == 1 and group_list is not None:
        if isinstance(group_list, Tensor):
            raise NotCovered(_NAME, "results of sizes that only a tensor knows (split_item 0 or 1)")
        ends = list(group_list)
        sizes = [b - a for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        return [x[0].new_empty((size, columns), dtype=dtype) for size in sizes]
    return [t.new_empty((*t.shape[:-1], w.shape[-1]), dtype=dtype) for t, w in zip(x, weight, strict=True)]


def _pairs(draw: Draw) -> tuple[list[Tensor], list[Tensor]]:
    return [draw.real(6, 64), draw.real(2, 64)], [draw.real(64, 32), draw.real(64, 16)]


def _groups(draw: Draw) -> list[Sample]:
    one = [draw.real(6, 64)], [draw.real(3, 64, 32)]
    ends = {"group_list": torch.tensor([2, 2, 6]), "split_item": 3, "group_type": 0}
    sizes = {**ends, "group_list": torch.tensor([2, 1, 3]), "group_list_type": 1}
    separate = {"split_item": 0, "group_type": -1}
    narrow = [one[0][0]], [packed(draw.small(3, 64, 32))]
    turned = [one[0][0]], [packed(draw.small(3, 32, 64)).mT]
    scaled = {**ends, "antiquant_scale": [draw.positive(3, 32)], "antiquant_offset": [draw.real(3, 32)]}
    quantised = {
        "scale": [draw.positive(3, 32, dtype=torch.bfloat16)],
        "per_token_scale": [draw.positive(6, dtype=F32)],
        "output_dtype": torch.bfloat16,
    }
    return [
        Sample(narrow, scaled, "four_bits"),
        Sample(turned, scaled, "four_bits_turned"),
        Sample(one, ends),
        Sample(one, sizes, "sizes"),
        Sample(([draw.small(6, 64)], [draw.small(3, 64, 32)]), {**ends, **quantised}, "quantised"),
        Sample(one, {**ends, "bias": [draw.real(3, 32)]}, "bias"),
        Sample(([draw.real(6, 16).mT], [draw.real(6, 32)]), {**ends, "group_type": 2}, "summed"),
        Sample(_pairs(draw), separate, "separate"),
    ]


OPS: Final = (
    NpuOp(_NAME, grouped_matmul, _groups, _fake),
    NpuOp(f"{_NAME}.List", grouped_matmul, lambda draw: [Sample(_pairs(draw), {"split_item": 0})], _fake),
)
