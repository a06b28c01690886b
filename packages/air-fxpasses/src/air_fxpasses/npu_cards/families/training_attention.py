"""`npu_fusion_attention`: whole batches, or sequences packed one after the other (`TND`). No dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

from air_fxpasses.npu_cards._attend import Visible, attend, from_heads, pieces, to_heads
from air_fxpasses.npu_cards._card import NpuOp
from air_fxpasses.npu_cards._ir import Ir
from air_fxpasses.npu_cards._laid_out import MASK, laid_out
from air_fxpasses.npu_cards._sample import Draw, Sample
from air_fxpasses.npu_cards.errors import NotCovered

_NAME: Final = "npu_fusion_attention"
_LAYOUTS: Final = ("BSH", "SBH", "BSND", "BNSD", "TND")

#: The statistics of a row are repeated this often.
_REPEATED: Final = 8

Results = tuple[Tensor, Tensor, Tensor, Tensor, int, int, int]


def fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Tensor | None = None,
    padding_mask: Tensor | None = None,
    atten_mask: Tensor | None = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = 2147483647,
    next_tockens: int = 2147483647,
    inner_precise: int = 0,
    prefix: Sequence[int] | None = None,
    actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
    softmax_layout: str = "",
    sink: Tensor | None = None,
    dropout_mask: Tensor | None = None,
    seed: int = 0,
    offset: int = 0,
) -> Results:
    """The output, largest score and softmax sum of each row (eight times), nothing, and no dropout's numbers."""
    _refuse(input_layout, keep_prob, padding_mask, prefix, softmax_layout)
    visible = Visible(sparse_mode, pre_tockens, next_tockens)
    if input_layout == "TND":
        if not actual_seq_qlen or not actual_seq_kvlen:
            raise NotCovered(_NAME, "layout TND without actual_seq_qlen and actual_seq_kvlen")
        packed = ((query, actual_seq_qlen), (key, actual_seq_kvlen), (value, actual_seq_kvlen))
        sequences = list(zip(*(pieces(x, ends) for x, ends in packed), strict=True))
    else:
        merged = input_layout in ("BSH", "SBH")
        heads = key.shape[-1] * head_num // query.shape[-1] if merged else 0
        counts = ((query, head_num), (key, heads), (value, heads))
        sequences = [tuple(to_heads(x, input_layout, count) for x, count in counts)]
    how: dict[str, Any] = {"scale": scale, "visible": visible, "mask": atten_mask, "operator": _NAME}
    found = [attend(*qkv, **how, bias=pse, bias_is_scaled=True, sink=sink) for qkv in sequences]
    empty = query.new_empty((0,))
    if input_layout == "TND":
        out, largest, total = (
            torch.cat([x[0].transpose(0, 1) for x in parts])
            for parts in zip(*((r.out, r.largest, r.total) for r in found), strict=True)
        )
        return out.contiguous(), _repeated(largest), _repeated(total), empty, 0, 0, 0
    result = found[0]
    out = from_heads(result.out, input_layout)
    return out, _repeated(result.largest), _repeated(result.total), empty, 0, 0, 0


def _repeated(x: Tensor) -> Tensor:
    return x.expand(*x.shape[:-1], _REPEATED).contiguous()


def _refuse(
    layout: str,
    keep_prob: float,
    padding_mask: Tensor | None,
    prefix: Sequence[int] | None,
    softmax_layout: str,
) -> None:
    refused = {
        f"input_layout '{layout}'": layout not in _LAYOUTS,
        "dropout (keep_prob below 1)": keep_prob != 1.0,
        "padding_mask and prefix": padding_mask is not None or bool(prefix),
        f"softmax_layout '{softmax_layout}'": bool(softmax_layout),
    }
    for variant, is_asked_for in refused.items():
        if is_asked_for:
            raise NotCovered(_NAME, variant)


def _fake(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str, *_: Any, **__: Any
) -> Results:
    if input_layout not in _LAYOUTS:
        raise NotCovered(_NAME, f"input_layout '{input_layout}'")
    empty = query.new_empty((0,))
    if input_layout == "TND":
        rows: tuple[int, ...] = (query.shape[0], head_num, _REPEATED)
        out = query.new_empty((query.shape[0], head_num, value.shape[2]))
    else:
        batches, _n, tokens, width = to_heads(query, input_layout, head_num).shape
        if input_layout in ("BSH", "SBH"):
            width = value.shape[2] // (key.shape[2] // width)
        else:
            width = value.shape[3]
        sizes = {"B": batches, "N": head_num, "S": tokens, "D": width, "H": head_num * width}
        out = query.new_empty(tuple(sizes[axis] for axis in input_layout))
        rows = (batches, head_num, tokens, _REPEATED)
    largest = query.new_empty(rows, dtype=torch.float32)
    return out, largest, torch.empty_like(largest), empty, 0, 0, 0


def _trained(draw: Draw) -> list[Sample]:
    calls = [
        Sample((*args, 4, layout), {"scale": 0.25, **ends}, layout)
        for layout, args, ends in laid_out(draw, "actual_seq_qlen", "actual_seq_kvlen")
    ]
    plain = next(call for call in calls if call.label == "BNSD")
    return [*calls, Sample(plain.args, {"atten_mask": MASK}, "masked")]


_SCORES: Final = Ir(
    "FlashAttentionScore",
    {"real_shift": "pse", "scale_value": "scale"},
    gives=("attention_out", "softmax_max", "softmax_sum", "softmax_out"),
    only={"keep_prob": 1.0},
    ignored=("gen_mask_parallel", "sync", "dropout_mask", "seed", "offset"),
)

OPS: Final = (NpuOp(_NAME, fusion_attention, _trained, _fake, ir=_SCORES),)
