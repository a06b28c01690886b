"""Fusion patterns of the `npu::` operators, as rows.

| row | found | put there |
|---|---|---|
| `add_rms_norm_dynamic_quant` | add and norm, then a dynamic quantisation | one operator |
| `add_rms_norm_dynamic_quant_merged` | the same with the first two axes merged in between | one operator and views |
| `add_rms_norm_cast` | add and norm, also wanted in 32 bits | one operator |
| `add_rms_norm_cast_merged` | the same on rows | one operator and a view |
| `add_rms_norm_quant` | add and norm, then a quantisation by division | one operator |
| `transpose_batchmatmul` | batched product, first two axes swapped | one operator |
| `transpose_both_batchmatmul` | the left operand's first two axes swapped as well | one operator |

A row sleeps until its operators are loaded. Where a pattern is found and a condition of the fused kernel does
not hold, the match is refused with that condition.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_ops._row import Kernel
from air_fxpasses.npu_ops.families.norms import EPSILON
from air_fxpasses.patterns import FusionPattern, Match, register_pattern, registered_patterns

aten = torch.ops.aten

#: A number that occurs in no program: where it stands in a pattern, any number may stand in a graph.
_EPSILON: Final = {"epsilon": 2.0000123e-6}
_ALIGNED: Final = 128
_LIMIT: Final = 65536
_BLOCK: Final = 32


def _npu() -> Any:
    return torch.ops.npu


# -- add, norm, dynamic quantisation


def _dynamic_search(x1: Tensor, x2: Tensor, gamma: Tensor, smooth: Tensor, epsilon: float) -> Any:
    y, _, x = _npu().npu_add_rms_norm.default(x1, x2, gamma, epsilon)
    values, scale = _npu().npu_dynamic_quant.default(y, smooth_scales=smooth)
    return values, scale, x


def _dynamic_replace(x1: Tensor, x2: Tensor, gamma: Tensor, smooth: Tensor, epsilon: float) -> Any:
    fused = _npu().npu_add_rms_norm_dynamic_quant.default(
        x1, x2, gamma, smooth_scale1=smooth, epsilon=epsilon, output_mask=[True, False]
    )
    return fused[0], fused[3], fused[2]


def _merged_search(x1: Tensor, x2: Tensor, gamma: Tensor, smooth: Tensor, epsilon: float) -> Any:
    y, _, x = _npu().npu_add_rms_norm.default(x1, x2, gamma, epsilon)
    merged = aten.view.default(y, [y.shape[0] * y.shape[1], *y.shape[2:]])
    values, scale = _npu().npu_dynamic_quant.default(merged, smooth_scales=smooth)
    return values, aten.view.default(scale, [-1, 1]), x


def _merged_replace(x1: Tensor, x2: Tensor, gamma: Tensor, smooth: Tensor, epsilon: float) -> Any:
    values, scale, x = _dynamic_replace(x1, x2, gamma, smooth, epsilon)
    merged = aten.view.default(values, [values.shape[0] * values.shape[1], *values.shape[2:]])
    return merged, aten.view.default(scale, [-1, 1]), x


# -- add, norm, cast


def _cast_search(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Any:
    y, _, x = _npu().npu_add_rms_norm.default(x1, x2, gamma, epsilon)
    return _to_float(y), y, x


def _npu_cast_search(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Any:
    y, _, x = _npu().npu_add_rms_norm.default(x1, x2, gamma, epsilon)
    return _npu()._npu_dtype_cast.default(y, torch.float32), y, x


def _cast_replace(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Any:
    wide, y, _, x = _npu().npu_add_rms_norm_cast.default(x1, x2, gamma, epsilon)
    return wide, y, x


def _cast_merged_search(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Any:
    y, _, x = _npu().npu_add_rms_norm.default(x1, x2, gamma, epsilon)
    merged = aten.view.default(y, [-1, x1.shape[-1]])
    return _to_float(merged), merged, x


def _cast_merged_replace(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Any:
    wide, y, x = _cast_replace(x1, x2, gamma, epsilon)
    width = x1.shape[-1]
    return aten.view.default(wide, [-1, width]), aten.view.default(y, [-1, width]), x


def _to_float(x: Tensor) -> Any:
    return aten._to_copy.default(x, dtype=torch.float32)


# -- add, norm, quantisation


def _quant_search(code: int, has_zero: bool) -> Callable[..., Any]:
    def search(x1: Tensor, x2: Tensor, gamma: Tensor, scales: Tensor, zero: Tensor, epsilon: float) -> Any:
        y, _, x = _npu().npu_add_rms_norm.default(x1, x2, gamma, epsilon)
        return _npu().npu_quantize.default(y, scales, zero if has_zero else None, code, -1, True), x

    def without(x1: Tensor, x2: Tensor, gamma: Tensor, scales: Tensor, epsilon: float) -> Any:
        return search(x1, x2, gamma, scales, scales, epsilon)

    return search if has_zero else without


def _quant_replace(has_zero: bool) -> Callable[..., Any]:
    def replace(x1: Tensor, x2: Tensor, gamma: Tensor, scales: Tensor, zero: Tensor, epsilon: float) -> Any:
        fused = _npu().npu_add_rms_norm_quant.default(
            x1, x2, gamma, scales, zero if has_zero else None, axis=-1, epsilon=epsilon, div_mode=True
        )
        return fused[0], fused[2]

    def without(x1: Tensor, x2: Tensor, gamma: Tensor, scales: Tensor, epsilon: float) -> Any:
        return replace(x1, x2, gamma, scales, scales, epsilon)

    return replace if has_zero else without


def _quant_check(match: Match) -> str | None:
    x, gamma, scales = match.value("x1"), match.value("gamma"), match.value("scales")
    width = x.shape[-1]
    if x.dtype not in (torch.float16, torch.bfloat16):
        return f"the fused kernel takes 16 bits, x1 is {x.dtype}"
    if not isinstance(width, int):
        return "the size of the last axis is not known"
    if width * x.element_size() % _BLOCK:
        return f"a row has {width * x.element_size()} bytes, which {_BLOCK} does not divide"
    if gamma.shape != scales.shape:
        return f"gamma is {list(gamma.shape)}, the scales are {list(scales.shape)}"
    if "zero" in match.kwargs and match.value("zero") is None:
        return "there are no zero points"
    if "zero" in match.kwargs and match.value("zero").dtype in (torch.uint8, torch.int8):
        return f"the zero points are {match.value('zero').dtype}"
    return None


# -- batched products


def _bmm_search(x1: Tensor, x2: Tensor) -> Any:
    return aten.transpose.int(aten.bmm.default(x1, x2), 0, 1)


def _bmm_reversed_search(x1: Tensor, x2: Tensor) -> Any:
    return aten.transpose.int(aten.bmm.default(x1, x2), 1, 0)


def _bmm_permuted_search(x1: Tensor, x2: Tensor) -> Any:
    return aten.permute.default(aten.bmm.default(x1, x2), [1, 0, 2])


def _bmm_replace(x1: Tensor, x2: Tensor) -> Any:
    return _npu().npu_transpose_batchmatmul.default(x1, x2, perm_x1=[0, 1, 2])


def _bmm_check(match: Match) -> str | None:
    x1, x2 = match.value("x1"), match.value("x2")
    if x1.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        return f"the fused kernel does not take {x1.dtype}"
    for name, size in (("the depth", x1.shape[-1]), ("the number of columns", x2.shape[-1])):
        if size % _ALIGNED:
            return f"{name}, {size}, is not a multiple of {_ALIGNED}"
    return None if x1.shape[-1] < _LIMIT else f"the depth, {x1.shape[-1]}, is not below {_LIMIT}"


def _both_search(x1: Tensor, x2: Tensor) -> Any:
    swapped = aten.transpose.int(x1, 0, 1)
    spread = aten.expand.default(swapped, [x1.shape[1], x1.shape[0], x1.shape[2]])
    return aten.transpose.int(aten.bmm.default(spread, x2), 0, 1)


def _both_plain_search(x1: Tensor, x2: Tensor) -> Any:
    return aten.transpose.int(aten.bmm.default(aten.transpose.int(x1, 0, 1), x2), 0, 1)


def _both_replace(x1: Tensor, x2: Tensor) -> Any:
    return _npu().npu_transpose_batchmatmul.default(x1, x2, perm_x1=[1, 0, 2])


def _both_check(match: Match) -> str | None:
    x1 = match.value("x1")
    product = x1.shape[1] * x1.shape[2]
    if not 1 <= product < _LIMIT:
        return f"batches times depth, {product}, is not between 1 and {_LIMIT}"
    return _bmm_check(match)


# -- the rows

_NORM: Final = "npu::npu_add_rms_norm"


def _with_default(function: Kernel) -> Kernel:
    """`function` for calls that leave epsilon out."""

    def call(**tensors: Tensor) -> Any:
        return function(**tensors, epsilon=EPSILON)

    given = inspect.signature(function).parameters.values()
    call.__signature__ = inspect.Signature([p for p in given if p.name != "epsilon"])  # type: ignore[attr-defined]
    return call


def _norm_rows(
    name: str,
    search: Kernel,
    replace: Kernel,
    size: Sequence[int],
    extra: Sequence[Callable[[], Tensor]] = (),
    check: Callable[[Match], str | None] | None = None,
    requires: tuple[str, ...] = (),
) -> tuple[FusionPattern, FusionPattern]:
    """A row for calls with an epsilon and a row for those without."""

    def inputs() -> tuple[Tensor, ...]:
        x, gamma = torch.empty(size, dtype=torch.float16), torch.empty(size[-1], dtype=torch.float16)
        return x, x.clone(), gamma, *(make() for make in extra)

    needed = (_NORM, *requires)
    plain = _with_default(search), _with_default(replace)
    return (
        FusionPattern(name, search, replace, inputs, needed, _EPSILON, check),
        FusionPattern(f"{name}_default_epsilon", *plain, inputs, needed, extra_check=check),
    )


def _bmm_row(name: str, search: Kernel, replace: Kernel, size: Sequence[int], check: Any) -> FusionPattern:
    def inputs() -> tuple[Tensor, ...]:
        return torch.empty(size), torch.empty(4, _ALIGNED, _ALIGNED)

    return FusionPattern(
        name, search, replace, inputs, ("npu::npu_transpose_batchmatmul",), extra_check=check
    )


def _scale(dtype: torch.dtype = torch.float32) -> Callable[[], Tensor]:
    return lambda: torch.empty(64, dtype=dtype)


_QUANT: Final = ("npu::npu_quantize", "npu::npu_add_rms_norm_quant")
_DYNAMIC: Final = ("npu::npu_dynamic_quant", "npu::npu_add_rms_norm_dynamic_quant")
_CAST: Final = ("npu::npu_add_rms_norm_cast",)

#: From the longest to the shortest, so that a short one does not take what a long one needs.
PATTERNS: Final = (
    *_norm_rows(
        "add_rms_norm_dynamic_quant_merged",
        _merged_search,
        _merged_replace,
        (3, 5, 64),
        (_scale(torch.float16),),
        requires=_DYNAMIC,
    ),
    *_norm_rows(
        "add_rms_norm_dynamic_quant",
        _dynamic_search,
        _dynamic_replace,
        (5, 64),
        (_scale(torch.float16),),
        requires=_DYNAMIC,
    ),
    *(
        row
        for code in (1, 12)
        for has_zero in (False, True)
        for row in _norm_rows(
            f"add_rms_norm_quant_{code}{'_zero' if has_zero else ''}",
            _quant_search(code, has_zero),
            _quant_replace(has_zero),
            (5, 64),
            (_scale(), _scale(torch.int32)) if has_zero else (_scale(),),
            _quant_check,
            _QUANT,
        )
    ),
    *_norm_rows(
        "add_rms_norm_cast_merged", _cast_merged_search, _cast_merged_replace, (3, 5, 64), requires=_CAST
    ),
    *_norm_rows("add_rms_norm_cast", _cast_search, _cast_replace, (5, 64), requires=_CAST),
    *_norm_rows("add_rms_norm_npu_cast", _npu_cast_search, _cast_replace, (5, 64), requires=_CAST),
    _bmm_row("transpose_both_batchmatmul_expanded", _both_search, _both_replace, (3, 4, 128), _both_check),
    _bmm_row("transpose_both_batchmatmul", _both_plain_search, _both_replace, (3, 4, 128), _both_check),
    _bmm_row("transpose_batchmatmul", _bmm_search, _bmm_replace, (4, 3, 128), _bmm_check),
    _bmm_row("transpose_batchmatmul_reversed", _bmm_reversed_search, _bmm_replace, (4, 3, 128), _bmm_check),
    _bmm_row("transpose_batchmatmul_permuted", _bmm_permuted_search, _bmm_replace, (4, 3, 128), _bmm_check),
)


def register_fusions() -> None:
    """Adds the rows to the table of fusion patterns; those that are there already stay."""
    known = {row.name for row in registered_patterns()}
    for pattern in PATTERNS:
        if pattern.name not in known:
            register_pattern(pattern)
