"""Fused operators of NPU model code against formulas written here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from air_fxpasses import npu_ops
from air_geir.converters import find, unregister
from air_geir.proof import compile_call

LIBRARY = torch.library.Library("npu", "FRAGMENT")
Formula = Callable[..., Any]


def rms(x: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> Any:
    rstd = 1 / torch.sqrt((x * x).mean(-1, keepdim=True) + epsilon)
    return x * rstd * gamma, rstd


def add_rms(a: torch.Tensor, b: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6) -> Any:
    y, rstd = rms(a + b, gamma, epsilon)
    return y, rstd, a + b


def rotary(
    x: torch.Tensor, r1: torch.Tensor, r2: torch.Tensor, rotary_mode: str = "half", rotate: Any = None
) -> Any:
    half = x.shape[-1] // 2
    if rotary_mode == "half":
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    else:
        turned = torch.empty_like(x)
        turned[..., ::2], turned[..., 1::2] = -x[..., 1::2], x[..., ::2]
    return x * r1 + turned * r2


def swiglu(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    a, b = x.chunk(2, dim)
    return a / (1 + torch.exp(-a)) * b


def dynamic_quant(x: torch.Tensor, *, smooth_scales: Any = None, **others: Any) -> Any:
    scaled = x if smooth_scales is None else x * smooth_scales
    scale = scaled.abs().max(-1).values / 127
    return torch.round(scaled / scale[..., None]).to(torch.int8), scale


def quant_matmul(x1: torch.Tensor, x2: torch.Tensor, scale: torch.Tensor, **others: Any) -> torch.Tensor:
    return ((x1.double() @ x2.double()) * scale.double()).half()


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> torch.Tensor:
    heads, kv_heads = options["num_heads"], options["num_key_value_heads"] or options["num_heads"]
    layout = options.get("input_layout", "BSH")

    def split(x: torch.Tensor, n: int) -> torch.Tensor:
        return x.view(*x.shape[:2], n, -1).transpose(1, 2) if layout == "BSH" else x

    mask = options.get("atten_mask")
    scale = options.get("scale_value", options.get("scale"))
    y = F.scaled_dot_product_attention(
        split(q, heads), split(k, kv_heads), split(v, kv_heads), None if mask is None else ~mask.bool(),
        scale=scale, enable_gqa=True,
    )  # fmt: skip
    return y.transpose(1, 2).flatten(2) if layout == "BSH" else y


def moe_softmax(x: torch.Tensor, finished: Any = None, k: int = 1) -> Any:
    order = torch.argsort(x.softmax(-1), -1, descending=True)[:, :k]
    rows = torch.tensor(
        [[i + j * x.shape[0] for j in range(k)] for i in range(x.shape[0])], dtype=torch.int32
    )
    return x.softmax(-1).gather(1, order), order.int(), rows


def scatter_rows(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    for place, update in zip(indices.tolist(), updates, strict=True):
        y[tuple(place)] = update
    return y


def scatter_cache(x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, axis: int) -> torch.Tensor:
    y = x.clone()
    for row, start in enumerate(indices.tolist()):
        for j in range(updates.shape[axis]):
            y[row].select(axis % x.dim() - 1, start + j).copy_(updates[row].select(axis % x.dim() - 1, j))
    return y


def apply_rope(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *others: Any) -> Any:
    return rotary(q, cos, sin), rotary(k, cos, sin)


def interleaved(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
    return rotary(torch.cat([x[..., ::2], x[..., 1::2]], -1), cos, sin)


def geglu(x: torch.Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False) -> Any:
    a, b = x.chunk(2, dim)
    gelu = F.gelu(b, approximate="tanh")
    return a * gelu, gelu


def silu_norm(x: torch.Tensor, w: Any, b: Any, group: int, eps: float = 1e-5) -> Any:
    grouped = x.reshape(x.shape[0], group, -1)
    mean, var = grouped.mean(-1), grouped.var(-1, unbiased=False)
    return F.silu(F.group_norm(x, group, w, b, eps)), mean, (var + eps).rsqrt()


def counts(x: torch.Tensor, num_expert: int) -> torch.Tensor:
    return torch.tensor([int((x <= e).sum()) for e in range(num_expert)], dtype=x.dtype)


def transposed(x: torch.Tensor, w: torch.Tensor, **options: Any) -> torch.Tensor:
    return torch.einsum("mbk,bkn->mbn", x, w)


X, G = torch.randn(2, 3, 8), torch.randn(8)
Q = torch.randn(2, 4, 16)
COS, SIN = torch.rand(1, 3, 1, 8), torch.rand(1, 3, 1, 8)
MASK = torch.ones(4, 4).triu(1).bool()
CALLS: list[tuple[str, Formula, tuple[Any, ...], dict[str, Any]]] = [
    ("npu_rms_norm", rms, (X, G), {}),
    ("npu_add_rms_norm",
     add_rms, (X, X * 2, G), {}),
    ("npu_rotary_mul",
     rotary, (torch.randn(2, 3, 4, 8), COS, SIN), {}),
    ("npu_rotary_mul",
     rotary, (torch.randn(2, 3, 4, 8), COS, SIN, "interleave"), {}),
    ("npu_swiglu", swiglu, (X,), {}),
    ("npu_geglu",
     geglu, (X,), {}),
    ("npu_gelu",
     lambda x, approximate="none": F.gelu(x, approximate=approximate), (X,), {"approximate": "tanh"}),
    ("npu_fast_gelu", lambda x: x / (1 + torch.exp(-1.702 * x)), (X,), {}),
    ("npu_linear", F.linear,
     (torch.randn(3, 8), torch.randn(5, 8), torch.randn(5)), {}),
    ("npu_interleave_rope", interleaved,
     (torch.randn(2, 4, 3, 8), torch.rand(2, 1, 3, 8), torch.rand(2, 1, 3, 8)), {}),
    ("npu_apply_rotary_pos_emb",
     apply_rope, (torch.randn(2, 3, 4, 8), torch.randn(2, 3, 2, 8), COS, SIN), {}),
    ("npu_group_norm_silu", silu_norm, (torch.randn(2, 4, 6), torch.randn(4), torch.randn(4), 2), {}),
    ("npu_moe_gating_top_k_softmax",
     moe_softmax, (torch.randn(5, 6), None, 2), {}),
    ("npu_moe_compute_expert_tokens", counts,
     (torch.tensor([0, 0, 1, 3], dtype=torch.int32), 4), {}),
    ("npu_dynamic_quant", dynamic_quant, (X,), {}),
    ("npu_quant_matmul",
     quant_matmul, (torch.randint(-9, 9, (3, 8)).to(torch.int8), torch.randint(-9, 9, (8, 5)).to(torch.int8),
                    torch.rand(5).bfloat16().float()), {"output_dtype": 5}),  # the device keeps 10 bits of a scale
    ("npu_scatter_nd_update", scatter_rows,
     (torch.randn(4, 3), torch.tensor([[2], [0]]), torch.randn(2, 3)), {}),
    ("scatter_update", scatter_cache,
     (torch.randn(2, 3, 6, 4), torch.tensor([1, 4]), torch.randn(2, 3, 1, 4), -2), {}),
    ("npu_transpose_batchmatmul",
     transposed, (torch.randn(3, 2, 4), torch.randn(2, 4, 5)),
     {"perm_x1": [1, 0, 2], "perm_x2": [0, 1, 2], "perm_y": [1, 0, 2]}),
    ("npu_prompt_flash_attention", attention, (Q, Q[:, :, :8] * 2, Q[:, :, :8]),
     {"atten_mask": MASK, "num_heads": 4, "scale_value": 1 / math.sqrt(4), "num_key_value_heads": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "formula", "args", "kwargs"), CALLS, ids=[name for name, *_ in CALLS])
def test_a_fused_operator_computes_its_formula(
    name: str, formula: Formula, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    op = getattr(torch.ops.npu, name).default
    assert find(op) is not None
    run, tensors = compile_call(op, args, kwargs)
    expected = formula(*args, **kwargs)
    found = run(*tensors)
    for got, want in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=False):
        torch.testing.assert_close(got, want, atol=2e-3 if want.dtype == torch.float16 else 1e-5, rtol=1e-3)


def test_a_converter_waits_for_its_library() -> None:
    assert find("npu.npu_rms_norm.default") is not None
    with pytest.raises(Exception, match="has no converter"):
        unregister("npu.npu_unheard_of.default")


def _sizes_of_attention(q: Tensor, k: Tensor, v: Tensor, heads: int, layout: str, *_: Any, **__: Any) -> Any:
    rows = q.new_empty((q.shape[0], heads, q.shape[2 if layout == "BNSD" else 1], 8), dtype=torch.float32)
    numbers = q.new_empty((1,), dtype=torch.int64)
    return torch.empty_like(q), rows, rows.clone(), q.new_empty(0), numbers, numbers.clone()


def _sizes_of_gradients(q: Tensor, k: Tensor, v: Tensor, *_: Any, **__: Any) -> Any:
    return *(torch.empty_like(x) for x in (q, k, v)), q.new_empty(0), q.new_empty(())


def _declared(name: str, sizes: Callable[..., Any]) -> Any:
    """An operator that torch_npu alone declares, by its recorded schema."""
    if not torch._C._jit_get_schemas_for_operator(f"npu::{name}"):
        LIBRARY.define(npu_ops.SCHEMAS[name].removeprefix("npu::"))
        LIBRARY.impl(name, sizes, "Meta")
    return getattr(torch.ops.npu, name).default


def _fusion_attention() -> Any:
    return _declared("npu_fusion_attention_v3", _sizes_of_attention)


@pytest.mark.parametrize("sparse_mode", [0, 2, 3])
@pytest.mark.parametrize("layout", ["BNSD", "BSH"])
def test_the_attention_of_torch_npu_is_that_of_torch(layout: str, sparse_mode: int) -> None:
    op = _fusion_attention()
    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)
    mask = torch.ones(6, 6).triu(1).bool()
    expected = F.scaled_dot_product_attention(q, k, v, ~mask, scale=0.3, enable_gqa=True)
    if layout == "BSH":
        q, k, v, expected = (x.transpose(1, 2).flatten(2) for x in (q, k, v, expected))
    options = {"atten_mask": mask, "scale": 0.3, "sparse_mode": sparse_mode}
    run, tensors = compile_call(lambda q, k, v, m: op(q, k, v, 4, layout, **{**options, "atten_mask": m})[0],
                                (q, k, v, mask), {})  # fmt: skip
    torch.testing.assert_close(run(*tensors)[0], expected)


def test_a_query_that_may_look_nowhere_gets_zeros_as_on_a_device() -> None:
    op = _fusion_attention()
    q, k, v = torch.randn(2, 1, 3, 8), torch.randn(2, 1, 3, 8), torch.randn(2, 1, 3, 8)
    mask = torch.tensor([[True, True, True], [False, True, True], [False, False, False]])
    expected = F.scaled_dot_product_attention(q, k, v, ~mask, scale=0.3)
    expected[:, :, 0] = 0
    run, tensors = compile_call(lambda q, k, v, m: op(q, k, v, 1, "BNSD", atten_mask=m, scale=0.3)[0],
                                (q, k, v, mask), {})  # fmt: skip
    torch.testing.assert_close(run(*tensors)[0], expected)


@pytest.mark.parametrize("name", ["npu_fusion_attention_grad", "npu_fusion_attention_grad_v3"])
@pytest.mark.parametrize("layout", ["BNSD", "BSH"])
def test_the_gradient_of_attention_is_that_of_autograd(layout: str, name: str) -> None:
    op = _declared(name, _sizes_of_gradients)
    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 6, 8), torch.randn(2, 2, 6, 8)
    mask = torch.ones(6, 6).triu(1).bool()
    leaves = [x.requires_grad_() for x in (q, k, v)]
    result = F.scaled_dot_product_attention(
        leaves[0], leaves[1], leaves[2], ~mask, scale=0.3, enable_gqa=True
    )
    dy = torch.randn_like(result)
    expected = list(torch.autograd.grad(result, leaves, dy))
    given = [x.detach() for x in (q, k, v, dy)]
    if layout == "BSH":
        given, expected = ([x.transpose(1, 2).flatten(2) for x in xs] for xs in (given, expected))
    rows = torch.zeros(2, 4, 6, 8)

    def gradients(q: Tensor, k: Tensor, v: Tensor, dy: Tensor, mask: Tensor) -> Any:
        saved = {"softmax_max": rows, "softmax_sum": rows, "attention_in": dy}
        return op(q, k, v, dy, 4, layout, atten_mask=mask, scale_value=0.3, sparse_mode=1, **saved)[:3]

    run, tensors = compile_call(gradients, (*given, mask), {})
    for ours, theirs in zip(run(*tensors), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(("mode", "scales"), [("pertensor", 64), ("perchannel", 8)])
def test_smoothed_values_are_quantised_without_rounding_to_16_bits_first(mode: str, scales: int) -> None:
    torch.manual_seed(0)
    x, smooth = torch.randn(8, 64).bfloat16(), (torch.rand(scales) + 0.01).bfloat16()
    given = {"smooth_scales": smooth, "quant_mode": mode}
    run, tensors = compile_call(torch.ops.npu.npu_dynamic_quant.default, (x,), given)
    for mine, theirs in zip(run(*tensors), torch.ops.npu.npu_dynamic_quant(x, **given), strict=True):
        assert torch.equal(mine, theirs)
