"""Rotary positions of queries and keys.

On the device `npu_apply_rotary_pos_emb` also leaves its results in `query` and `key`, which its schema does
not say. The reference keeps to the schema: use the results.
"""

from __future__ import annotations

from typing import Final

from torch import Tensor

from air_fxpasses.npu_cards._card import NpuOp, like_first
from air_fxpasses.npu_cards._ir import Ir, Respelled
from air_fxpasses.npu_cards._rotate import deinterleaved, rotated
from air_fxpasses.npu_cards._sample import Draw, Sample
from air_fxpasses.npu_cards._types import wide
from air_fxpasses.padding._call import Call
from air_fxpasses.padding._labels import Labels, Unproven, joined


def rotary_mul(
    input: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Tensor | None = None
) -> Tensor:
    """`input * r1 + turned(input) * r2`, turned by `rotate` when it is given."""
    if rotate is None:
        return rotated(input, r1, r2, rotary_mode, "npu_rotary_mul")
    values = wide(input)
    return (values * wide(r1) + values @ wide(rotate) * wide(r2)).to(input.dtype)


def apply_rotary_pos_emb(
    query: Tensor,
    key: Tensor,
    cos: Tensor,
    sin: Tensor,
    layout: str = "BSND",
    rotary_mode: str = "half",
) -> tuple[Tensor, Tensor]:
    """Queries and keys, turned by the same angles; a shorter `cos` turns the front alone."""
    name = "npu_apply_rotary_pos_emb"
    turned = tuple(rotated(x, cos, sin, rotary_mode, name).contiguous() for x in (query, key))
    return turned[0], turned[1]


def interleave_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The even and the odd elements of `x` become its halves, which are then turned."""
    return rotated(deinterleaved(x), cos, sin, "half", "npu_interleave_rope")


def _padded(call: Call) -> tuple[Labels, ...]:
    """Elements of the last dimension meet, angles are broadcast."""
    labels = joined([call.one("input"), call.one("r1"), call.one("r2")], len(call.labels("input")))
    call.require_none(labels[-1:], "it computes across the padded dimension")
    if call["rotate"] is not None:
        raise Unproven("no rule says what its matrix does to padding")
    return (labels,)


def _turns(draw: Draw) -> list[Sample]:
    args = draw.real(2, 3, 4, 128), draw.real(2, 3, 1, 128), draw.real(2, 3, 1, 128)
    return [
        Sample(args),
        Sample((*args, "interleave"), label="interleave"),
        Sample((*args, "interleave", draw.real(128, 128)), label="matrix"),
    ]


OPS: Final = (
    NpuOp("npu_rotary_mul", rotary_mul, _turns, like_first, padding=_padded),
    NpuOp(
        "npu_apply_rotary_pos_emb",
        apply_rotary_pos_emb,
        lambda draw: [Sample((draw.real(2, 3, 4, 128), *(draw.real(2, 3, 1, 128) for _ in range(3))))],
        lambda query, key, *_, **__: (query.new_empty(query.shape), key.new_empty(key.shape)),
        ir=Ir(
            "ApplyRotaryPosEmb",
            {"layout": Respelled("layout", {"BSND": 1, "BSH": 1, "SBND": 2, "BNSD": 3, "TND": 4})},
            writes={},
        ),
    ),
    NpuOp(
        "npu_interleave_rope",
        interleave_rope,
        lambda draw: [Sample((draw.real(2, 4, 3, 64), draw.real(2, 1, 3, 64), draw.real(2, 1, 3, 64)))],
        like_first,
        ir=Ir("InterleaveRope"),
    ),
)
