"""Fused operators of NPU model code against formulas written here, with the schemas of torch_npu."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

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
SCHEMAS: list[tuple[str, Formula, tuple[Any, ...], dict[str, Any]]] = [
    ("npu_rms_norm(Tensor self, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor)", rms, (X, G), {}),
    ("npu_add_rms_norm(Tensor x1, Tensor x2, Tensor gamma, float epsilon=1e-06) -> (Tensor, Tensor, Tensor)",
     add_rms, (X, X * 2, G), {}),
    ("npu_rotary_mul(Tensor self, Tensor r1, Tensor r2, str rotary_mode='half', Tensor? rotate=None) -> Tensor",
     rotary, (torch.randn(2, 3, 4, 8), COS, SIN), {}),
    ("npu_rotary_mul(Tensor self, Tensor r1, Tensor r2, str rotary_mode='half', Tensor? rotate=None) -> Tensor",
     rotary, (torch.randn(2, 3, 4, 8), COS, SIN, "interleave"), {}),
    ("npu_swiglu(Tensor self, int dim=-1) -> Tensor", swiglu, (X,), {}),
    ("npu_geglu(Tensor self, int dim=-1, int approximate=1, bool activate_left=False) -> (Tensor, Tensor)",
     geglu, (X,), {}),
    ("npu_gelu(Tensor self, *, str approximate='none') -> Tensor",
     lambda x, approximate="none": F.gelu(x, approximate=approximate), (X,), {"approximate": "tanh"}),
    ("npu_fast_gelu(Tensor self) -> Tensor", lambda x: x / (1 + torch.exp(-1.702 * x)), (X,), {}),
    ("npu_linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", F.linear,
     (torch.randn(3, 8), torch.randn(5, 8), torch.randn(5)), {}),
    ("npu_interleave_rope(Tensor x, Tensor cos, Tensor sin) -> Tensor", interleaved,
     (torch.randn(2, 4, 3, 8), torch.rand(2, 1, 3, 8), torch.rand(2, 1, 3, 8)), {}),
    ("npu_apply_rotary_pos_emb(Tensor query, Tensor key, Tensor cos, Tensor sin, str layout='BSND', "
     "str rotary_mode='half') -> (Tensor, Tensor)",
     apply_rope, (torch.randn(2, 3, 4, 8), torch.randn(2, 3, 2, 8), COS, SIN), {}),
    ("npu_group_norm_silu(Tensor input, Tensor? weight, Tensor? bias, int group, float eps=0.00001) -> "
     "(Tensor, Tensor, Tensor)", silu_norm, (torch.randn(2, 4, 6), torch.randn(4), torch.randn(4), 2), {}),
    ("npu_moe_gating_top_k_softmax(Tensor x, Tensor? finished=None, int k=1) -> (Tensor, Tensor, Tensor)",
     moe_softmax, (torch.randn(5, 6), None, 2), {}),
    ("npu_moe_compute_expert_tokens(Tensor sorted_expert_for_source_row, int num_expert) -> Tensor", counts,
     (torch.tensor([0, 0, 1, 3], dtype=torch.int32), 4), {}),
    ("npu_dynamic_quant(Tensor input, *, Tensor? smooth_scales=None, Tensor? group_index=None, int? dst_type=None, "
     "str quant_mode=\"pertoken\", float dst_type_max=0.0) -> (Tensor, Tensor)", dynamic_quant, (X,), {}),
    ("npu_quant_matmul(Tensor x1, Tensor x2, Tensor scale, *, Tensor? offset=None, Tensor? pertoken_scale=None, "
     "Tensor? bias=None, int? output_dtype=None, int? x1_dtype=None, int? x2_dtype=None, "
     "int? pertoken_scale_dtype=None, int? scale_dtype=None, int[]? group_sizes=None, Tensor? y_scale=None) -> Tensor",
     quant_matmul, (torch.randint(-9, 9, (3, 8)).to(torch.int8), torch.randint(-9, 9, (8, 5)).to(torch.int8),
                    torch.rand(5)), {"output_dtype": 5}),
    ("npu_scatter_nd_update(Tensor self, Tensor indices, Tensor updates) -> Tensor", scatter_rows,
     (torch.randn(4, 3), torch.tensor([[2], [0]]), torch.randn(2, 3)), {}),
    ("scatter_update(Tensor self, Tensor indices, Tensor updates, int axis) -> Tensor", scatter_cache,
     (torch.randn(2, 3, 6, 4), torch.tensor([1, 4]), torch.randn(2, 3, 1, 4), -2), {}),
    ("npu_transpose_batchmatmul(Tensor input, Tensor weight, *, Tensor? bias=None, Tensor? scale=None, "
     "int[]? perm_x1=None, int[]? perm_x2=None, int[]? perm_y=None, int? batch_split_factor=1) -> Tensor",
     transposed, (torch.randn(3, 2, 4), torch.randn(2, 4, 5)),
     {"perm_x1": [1, 0, 2], "perm_x2": [0, 1, 2], "perm_y": [1, 0, 2]}),
    ("npu_prompt_flash_attention(Tensor query, Tensor key, Tensor value, *, Tensor? padding_mask=None, "
     "Tensor? atten_mask=None, Tensor? pse_shift=None, int[]? actual_seq_lengths=None, Tensor? deq_scale1=None, "
     "Tensor? quant_scale1=None, Tensor? deq_scale2=None, Tensor? quant_scale2=None, Tensor? quant_offset2=None, "
     "int num_heads=1, float scale_value=1.0, int pre_tokens=2147483647, int next_tokens=0, "
     "str input_layout=\"BSH\", int num_key_value_heads=0, int[]? actual_seq_lengths_kv=None, int sparse_mode=0) "
     "-> Tensor", attention, (Q, Q[:, :, :8] * 2, Q[:, :, :8]),
     {"atten_mask": MASK, "num_heads": 4, "scale_value": 1 / math.sqrt(4), "num_key_value_heads": 2}),
]  # fmt: skip


SHAPES: dict[str, Formula] = {
    "npu_scatter_nd_update": lambda x, indices, updates: torch.empty_like(x),
    "scatter_update": lambda x, indices, updates, axis: torch.empty_like(x),
    "npu_moe_compute_expert_tokens": lambda x, experts: x.new_empty(experts),
}
"""Shapes of results whose formula reads data."""


def declared(schema: str, formula: Formula) -> Any:
    """The operator of the schema: the one that is loaded, else one defined here by its formula."""
    name = schema.partition("(")[0]
    if not torch._C._jit_get_schemas_for_operator(f"npu::{name}"):
        LIBRARY.define(schema)
        LIBRARY.impl(name, formula, "CompositeExplicitAutograd")
        LIBRARY.impl(name, SHAPES.get(name) or _described(formula), "Meta")
    return getattr(torch.ops.npu, name).default


def _described(formula: Formula) -> Formula:
    def describe(*args: Any, **kwargs: Any) -> Any:
        real = [torch.zeros(a.shape, dtype=a.dtype) if isinstance(a, torch.Tensor) else a for a in args]
        named = {
            k: torch.zeros(v.shape, dtype=v.dtype) if isinstance(v, torch.Tensor) else v
            for k, v in kwargs.items()
        }
        made = formula(*real, **named)
        several = made if isinstance(made, tuple) else (made,)
        metas = tuple(torch.empty(m.shape, dtype=m.dtype, device="meta") for m in several)
        return metas if isinstance(made, tuple) else metas[0]

    return describe


@pytest.mark.parametrize(
    ("schema", "formula", "args", "kwargs"), SCHEMAS, ids=[s[0].partition("(")[0] for s in SCHEMAS]
)
def test_a_fused_operator_computes_its_formula(
    schema: str, formula: Formula, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    op = declared(schema, formula)
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


def _fusion_attention() -> Any:
    schema = (
        "npu_fusion_attention_v3(Tensor query, Tensor key, Tensor value, int head_num, str input_layout, "
        "Tensor? pse=None, Tensor? padding_mask=None, Tensor? atten_mask=None, float scale=1., float keep_prob=1., "
        "int pre_tockens=2147483647, int next_tockens=2147483647, int inner_precise=0, SymInt[]? prefix=None, "
        "Tensor? actual_seq_qlen=None, Tensor? actual_seq_kvlen=None, int sparse_mode=0, "
        'bool gen_mask_parallel=True, bool sync=False, str softmax_layout="", Tensor? sink=None) '
        "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
    )

    def described(q: torch.Tensor, *others: Any, **options: Any) -> Any:
        return (torch.empty_like(q), *[q.new_empty(0) for _ in range(5)])

    return declared(schema, described)


@pytest.mark.parametrize("sparse_mode", [0, 2, 3])
@pytest.mark.parametrize("layout", ["BNSD", "BSH"])
def test_the_attention_of_torch_npu_is_written_with_products(layout: str, sparse_mode: int) -> None:
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
