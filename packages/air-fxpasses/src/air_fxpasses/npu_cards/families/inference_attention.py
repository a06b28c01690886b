"""Attention over caches: the two fused operators and the two older ones for prompts and single tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._attend import Visible
from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._infer import Problem, empty_results, infer
from air_fxpasses.npu_cards._ir import Ir, ReadAs, Respelled
from air_fxpasses.npu_cards._laid_out import MASK, heads_first, laid_out
from air_fxpasses.npu_cards._quantise import rounded
from air_fxpasses.npu_cards._sample import HALF, Calls, Draw, Sample
from air_fxpasses.npu_cards._types import FOUR_BITS, HIFLOAT8, Code, type_of, wide
from air_fxpasses.npu_cards.errors import NotCovered

#: name in `Problem` -> name of the argument, per operator
_V1: Final = {
    "heads": "num_heads",
    "key_heads": "num_key_value_heads",
    "scale": "scale",
    "layout": "input_layout",
    "mask": "atten_mask",
    "bias": "pse_shift",
    "query_rope": "query_rope",
    "key_rope": "key_rope",
    "query_ends": "actual_seq_lengths",
    "key_ends": "actual_seq_lengths_kv",
    "pages": "block_table",
    "key_scale": "key_antiquant_scale",
    "key_offset": "key_antiquant_offset",
    "value_scale": "value_antiquant_scale",
    "value_offset": "value_antiquant_offset",
}
#: Arguments as the first version names them -> as the second does.
_RENAMED: Final = {
    "num_heads": "num_query_heads",
    "scale": "softmax_scale",
    "actual_seq_lengths": "actual_seq_qlen",
    "actual_seq_lengths_kv": "actual_seq_kvlen",
    "key_antiquant_scale": "dequant_scale_key",
    "key_antiquant_offset": "dequant_offset_key",
    "value_antiquant_scale": "dequant_scale_value",
    "value_antiquant_offset": "dequant_offset_value",
}
_V2: Final = {**{field: _RENAMED.get(name, name) for field, name in _V1.items()}, "sink": "learnable_sink"}
_PROMPT: Final = {**_V1, "scale": "scale_value"}
_INCRE: Final = {**_PROMPT, "query_ends": "", "key_ends": "actual_seq_lengths"}

#: arguments that change nothing for a kernel in plain torch, or that are read elsewhere
_READ: Final = frozenset(
    (
        "sparse_mode",
        "pre_tokens",
        "next_tokens",
        "inner_precise",
        "block_size",
        "softmax_lse_flag",
        "return_softmax_lse",
        "quant_scale2",
        "quant_offset2",
        "quant_scale_out",
        "quant_offset_out",
        "antiquant_scale",
        "antiquant_offset",
        "out_dtype",
        "workspace",
        "out",
    )
)


def _problem(
    operator: str, names: Mapping[str, str], tensors: tuple[Tensor, Tensor, Tensor], given: Mapping[str, Any]
) -> Problem:
    known = {*names.values(), *_READ}
    for name, value in given.items():
        if name not in known and (isinstance(value, Tensor) or value):
            raise NotCovered(operator, f"the argument {name}")
    fields = {mine: given[theirs] for mine, theirs in names.items() if given.get(theirs) is not None}
    fields = {"heads": 1, "scale": 1.0, "layout": "BSH", "visible": _visible(given), **fields}
    fields["layout"] = "BSH" if fields["layout"] == "SH" else fields["layout"]
    fields["key_heads"] = fields.get("key_heads") or fields["heads"]
    both, offsets = given.get("antiquant_scale"), given.get("antiquant_offset")
    if both is not None:
        fields.update(key_scale=both[0], value_scale=both[1])
    if offsets is not None:
        fields.update(key_offset=offsets[0], value_offset=offsets[1])
    if tensors[0].dtype == torch.int8:
        raise NotCovered(operator, "queries of 8 bits")
    return Problem(operator, *tensors, **fields)


def _visible(given: Mapping[str, Any]) -> Visible:
    unbounded = 2**31 - 1
    return Visible(
        given.get("sparse_mode", 0), given.get("pre_tokens", unbounded), given.get("next_tokens", unbounded)
    )


def _scale_of_result(given: Mapping[str, Any]) -> tuple[Tensor | None, Tensor | None]:
    scale = given.get("quant_scale2", given.get("quant_scale_out"))
    return scale, given.get("quant_offset2", given.get("quant_offset_out"))


def _type_of_result(problem: Problem, given: Mapping[str, Any]) -> torch.dtype:
    if _scale_of_result(given)[0] is None:
        return problem.query.dtype
    return type_of(given.get("out_dtype"), torch.int8, problem.operator)


def _computed(problem: Problem, given: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    out, sums = infer(problem)
    scale, offset = _scale_of_result(given)
    if scale is not None:
        values = wide(out) * wide(scale)
        out = rounded(values if offset is None else values + wide(offset), _type_of_result(problem, given))
    return out, sums if _wants_sums(given) else problem.query.new_empty((0,), dtype=torch.float32)


def _wants_sums(given: Mapping[str, Any]) -> bool:
    return bool(given.get("softmax_lse_flag") or given.get("return_softmax_lse"))


def _pair(operator: str, names: Mapping[str, str]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The reference and the fake kernel of a fused operator."""

    def reference(query: Tensor, key: Tensor, value: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
        return _computed(_problem(operator, names, (query, key, value), given), given)

    def fake(query: Tensor, key: Tensor, value: Tensor, **given: Any) -> tuple[Tensor, Tensor]:
        problem = _problem(operator, names, (query, key, value), given)
        return empty_results(problem, _type_of_result(problem, given), _wants_sums(given))

    return reference, fake


def _first_of(kernel: Callable[..., Any], defaults: Mapping[str, Any]) -> Callable[..., Any]:
    def first(query: Tensor, key: Tensor, value: Tensor, **given: Any) -> Any:
        return kernel(query, key, value, **{**defaults, **given})[0]

    return first


def _into(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The form that writes into given results."""

    def write(query: Tensor, key: Tensor, value: Tensor, *, out: Sequence[Tensor], **given: Any) -> Any:
        for target, found in zip(out, kernel(query, key, value, **given), strict=True):
            if target.numel() == found.numel():
                target.copy_(found.view(target.shape))
        return tuple(out)

    return write


def _out_fake(query: Tensor, key: Tensor, value: Tensor, *, out: Sequence[Tensor], **given: Any) -> Any:
    return tuple(out)


def _workspace(query: Tensor, key: Tensor, value: Tensor, **given: Any) -> Tensor:
    """Scratch memory for the form that writes into given results: a kernel in plain torch needs none."""
    return query.new_empty((0,), dtype=torch.uint8)


def _scores(draw: Draw) -> list[Sample]:
    heads = {"num_heads": 4, "num_key_value_heads": 2, "scale": 0.25}
    sums = {**heads, "softmax_lse_flag": True}
    calls = [
        Sample(args, {**sums, "input_layout": layout, **ends}, layout)
        for layout, args, ends in laid_out(draw, *LENGTHS[:2])
    ]
    pages = {"block_table": torch.tensor([[2, 0], [1, 3]], dtype=torch.int32), "block_size": 16}
    decode = draw.real(2, 4, 1, 16), draw.real(4, 16, 32), draw.real(4, 16, 32)
    cached = {**heads, **pages, "actual_seq_lengths_kv": [20, 5], "input_layout": "BNSD"}
    return [
        *calls,
        Sample(heads_first(draw), {**sums, "input_layout": "BNSD", "atten_mask": MASK}, "masked"),
        Sample(decode, cached, "pages"),
    ]


def _scores_v2(draw: Draw) -> list[Sample]:
    heads = {"num_query_heads": 4, "num_key_value_heads": 2, "softmax_scale": 0.25}
    return [
        Sample(args, {**heads, "input_layout": layout, **ends}, layout)
        for layout, args, ends in laid_out(draw, *LENGTHS_V2)
    ]


def _plain(heads: str, *, into: bool = False) -> Calls:
    """One call without more than it needs."""

    def calls(draw: Draw) -> list[Sample]:
        out = {"out": [torch.zeros(2, 4, 6, 16, dtype=HALF), torch.zeros(0)]} if into else {}
        return [
            Sample(heads_first(draw), {heads: 4, "num_key_value_heads": 2, "input_layout": "BNSD", **out})
        ]

    return calls


def _prompts(draw: Draw) -> list[Sample]:
    names = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": "BNSD", "scale_value": 0.25}
    masked = {**names, "atten_mask": MASK, "next_tokens": 2147483647}
    return [Sample(heads_first(draw), names), Sample(heads_first(draw), masked, "masked")]


def _token(draw: Draw) -> list[Sample]:
    names = {"num_heads": 4, "num_key_value_heads": 2, "input_layout": "BNSD", "scale_value": 0.25}
    return [Sample((draw.real(2, 4, 1, 16), *heads_first(draw)[1:]), names)]


_FUSED: Final = "npu_fused_infer_attention_score"
LENGTHS: Final = ("actual_seq_lengths", "actual_seq_lengths_kv", "actual_shared_prefix_len")
LENGTHS_V2: Final = ("actual_seq_qlen", "actual_seq_kvlen")
_v1, _v1_fake = _pair(_FUSED, _V1)
_v2, _v2_fake = _pair(f"{_FUSED}_v2", _V2)
_prompt, _prompt_fake = _pair("npu_prompt_flash_attention", _PROMPT)
_incre, _incre_fake = _pair("npu_incre_flash_attention", _INCRE)

_CACHES: Final = {name: ReadAs(name, f"{name}_dtype", FOUR_BITS) for name in ("key", "value")}
_IR: Final = Ir(
    "FusedInferAttentionScore",
    {
        name: ReadAs(name, standing_for=FOUR_BITS)
        for name in ("key", "value", "key_shared_prefix", "value_shared_prefix")
    },
    ignored=("workspace",),
)
#: The type of a quantised result, which the operator type takes by torch's number; None: what it gives anyway.
_RESULTS: Final[Mapping[Code, Code]] = {
    **dict.fromkeys((None, 1, torch.int8)),
    **dict.fromkeys((5, torch.float16), 5),
    **dict.fromkeys((15, torch.bfloat16), 15),
    **dict.fromkeys((23, 291, torch.float8_e5m2), 23),
    **dict.fromkeys((24, 292, torch.float8_e4m3fn), 24),
    HIFLOAT8: HIFLOAT8,
}
_IR_V2: Final = Ir(
    "FusedInferAttentionScore",
    {
        **_RENAMED,
        **_CACHES,
        **{
            name: ReadAs(name, f"{name}_dtype")
            for name in ("query", "query_rope", "key_rope", "dequant_scale_query")
        },
        "key_antiquant_scale": ReadAs("dequant_scale_key", "dequant_scale_key_dtype"),
        "value_antiquant_scale": ReadAs("dequant_scale_value", "dequant_scale_value_dtype"),
        "key_rope_antiquant_scale": ReadAs("dequant_scale_key_rope", "dequant_scale_key_rope_dtype"),
        "key_antiquant_mode": "key_quant_mode",
        "value_antiquant_mode": "value_quant_mode",
        "quant_scale2": "quant_scale_out",
        "quant_offset2": "quant_offset_out",
        "softmax_lse_flag": "return_softmax_lse",
        "out_dtype": Respelled("out_dtype", _RESULTS),
    },
    held={"attention_out": "out_dtype"},
    ignored=("workspace",),
)

OPS: Final = (
    NpuOp(_FUSED, _v1, _scores, _v1_fake, updatable=LENGTHS, ir=_IR),
    NpuOp(f"{_FUSED}.out", _into(_v1), _plain("num_heads", into=True), _out_fake, updatable=LENGTHS, ir=_IR),
    NpuOp(f"_{_FUSED}_get_max_workspace", _workspace, _plain("num_heads")),
    NpuOp(f"{_FUSED}_v2", _v2, _scores_v2, _v2_fake, updatable=LENGTHS_V2, ir=_IR_V2),
    NpuOp(
        f"{_FUSED}_v2.out",
        _into(_v2),
        _plain("num_query_heads", into=True),
        _out_fake,
        updatable=LENGTHS_V2,
        ir=_IR_V2,
    ),
    NpuOp(f"_{_FUSED}_v2_get_max_workspace", _workspace, _plain("num_query_heads")),
    NpuOp(
        "npu_prompt_flash_attention",
        _first_of(_prompt, {"next_tokens": 0}),
        _prompts,
        _first_of(_prompt_fake, {"next_tokens": 0}),
        ir=Ir("PromptFlashAttention"),
    ),
    NpuOp(
        "npu_incre_flash_attention",
        _first_of(_incre, {}),
        _token,
        _first_of(_incre_fake, {}),
        ir=Ir("IncreFlashAttention"),
    ),
)
