"""Writes: in place, through views, by index, into an `out=`, and for many tensors at once."""

from __future__ import annotations

from typing import Final

import torch

from air_graph.testing._rows import Row
from air_graph.testing._scope import at_least, is_complex, is_float, is_number

some, pair = at_least(1), at_least(2)

WRITES: Final = (
    Row("{x}.add_({c})", results=0),
    Row("{x}.add_({y})", results=0),
    Row("{x}.add_({y}, alpha={k})", is_number, results=0),
    Row("{x}.sub_({y})", is_number, results=0),
    Row("{x}.mul_({c})", results=0),
    Row("{x}.mul_({y})", results=0),
    Row("{x} += {y}", results=0, tag="iadd"),
    Row("{x}.copy_({y})", results=0),
    Row("{x}.copy_({like}.flip(0))", some, results=0),
    Row("{x}.zero_()", results=0),
    Row("{x}.fill_({c})", results=0),
    Row("{x}.neg_()", is_number, results=0),
    Row("{x}.abs_()", is_number, results=0),
    Row("{x}.relu_()", is_float, results=0),
    Row("{x}.clamp_(-1, 2)", is_number, results=0),
    Row("{x}.sigmoid_()", is_float, results=0, inexact=True),
    Row("{x}.lerp_({like}, 0.5)", is_float, results=0),
    Row("{x}.addcmul_({like}, {like2}, value=2)", is_float, results=0),
    Row("{x}.fill_diagonal_({k})", lambda t: t.dim() == 2, results=0),
    Row("{x}.tril_()", pair, results=0),
    Row("{x}.cumsum_({d})", lambda t: t.dim() > 0 and t.dtype != torch.bool, results=0),
    Row("{x}[{i}] = {c}", some, results=0, tag="setitem_select"),
    Row("{x}[{a}:{b}] = {c}", some, results=0, tag="setitem_slice"),
    Row("{x}[..., {a}:] = {t}[..., {a}:]", some, results=0, tag="setitem_slice"),
    Row("{x}[{a}:{b}] = {t}[{a}:{b}]", some, results=0, tag="setitem_slice"),
    Row("{x}[..., ::2] += 1", some, results=0, tag="setitem_slice"),
    Row("{x}[{x}.shape[0] // 2 :] = {c}", some, results=0, tag="setitem_slice"),
    Row("{x}[torch.tensor([0, -1], device={x}.device)] = {c}", some, results=0, tag="setitem_rows"),
    Row("{x}[{rows}] = {c}", lambda t: t.dim() == 1 and t.numel() > 0, results=0, tag="setitem_rows"),
    Row("{x}[{mask}] = {c}", some, results=0, tag="setitem_mask"),
    Row("{x}[{mask}] *= 2", some, results=0, tag="setitem_mask"),
    Row("{x}[{mask}] = {like}[{mask}]", some, results=0, tag="setitem_mask"),
    Row("{x}.masked_fill_({mask}, {c})", some, results=0),
    Row("{x}.index_fill_({d}, {rows}, {c})", some, results=0),
    Row("{x}.index_add_({d}, {rows}, {like}.index_select({d}, {rows}))", some, results=0, apart=True),
    Row("{x}.index_copy_({d}, {rows}, {like}.index_select({d}, {rows}))", some, results=0, apart=True),
    Row(
        "{x}.index_put_(({rows},), {like}[:{many}], accumulate={flag})",
        lambda t: t.dim() == 1,
        results=0,
        apart=True,
    ),
    Row(
        "{x}.scatter_({d}, {like}.argsort(dim={d}, stable=True), {c})",
        some,
        results=0,
        exact=True,
        apart=True,
    ),
    Row(
        "{x}.scatter_({d}, {like}.argsort(dim={d}, stable=True), {like2})",
        some,
        results=0,
        exact=True,
        apart=True,
    ),
    Row(
        "{x}.scatter_add_({d}, {like}.argsort(dim={d}, stable=True), {like2})",
        some,
        results=0,
        exact=True,
        apart=True,
    ),
    Row("{x}.t().add_({c})", lambda t: t.dim() == 2, results=0),
    Row("{x}.t().copy_({like}.t())", lambda t: t.dim() == 2, results=0),
    Row("{x}.transpose(0, -1).mul_({c})", pair, results=0),
    Row("{x}[0].add_({c})", some, results=0),
    Row("{x}[..., -1].zero_()", some, results=0),
    Row("{x}.view(-1)[::2].zero_()", some, results=0),
    Row("{x}.diagonal().fill_({k})", pair, results=0),
    Row("{x}.narrow({d}, {a}, 1).mul_(2)", some, results=0),
    Row("{x}.chunk(2)[0].add_(1)", some, results=0),
    Row("{x}.select({d}, {i}).copy_({like}.select({d}, 0))", some, results=0),
    Row("{x}.squeeze_()", results=0),
    Row("{x}.unsqueeze_({d})", results=0),
    Row("{x}.t_()", lambda t: t.dim() == 2, results=0),
    Row("{x}.transpose_({d}, {e})", pair, results=0),
    Row("{x}.real.add_({k})", is_complex, results=0),
    Row("torch.view_as_real({x})[..., 1].neg_()", is_complex, results=0),
)
"""Rows that write to `{x}` in place."""

OUTS: Final = (
    Row("torch.add({y}, {like}, out={x})", results=0),
    Row("torch.mul({like}, {k}, out={x})", results=0),
    Row("torch.neg({like}, out={x})", is_number, results=0),
    Row("torch.clamp({like}, -1, 1, out={x})", is_number, results=0),
    Row("torch.maximum({like}, {like2}, out={x})", is_number, results=0),
    Row("torch.stack([{like}[0], {like2}[-1]], out={x}[:2])", some, results=0, apart=True),
    Row("torch.cat([{like}[:1], {like2}[1:]], out={x})", some, results=0, apart=True),
    Row(
        "torch.sum({like}, 0, out={x}[0])",
        lambda t: t.dim() > 0 and is_float(t) and t.numel() > 0,
        results=0,
        apart=True,
    ),
    Row(
        "torch.matmul({like}, {like2}, out={x})",
        lambda t: t.dim() == 2 and is_float(t),
        results=0,
        apart=True,
    ),
    Row("torch.add({like}, 1, out={x}.t())", lambda t: t.dim() == 2 and t.shape[0] == t.shape[1], results=0),
    Row("torch.mul({like}, 2, out=torch.empty_like({x}))", tag="mul_out"),
    Row("torch.add({x}, 1, out={x}.new_empty({x}.shape))", tag="add_out"),
)
"""Rows that give memory for a result."""

FOREACH: Final = (
    Row("torch._foreach_add([{x}, {t}], {k})", results=2),
    Row("torch._foreach_mul([{x}, {like}], [{like2}, {like3}])", results=2),
    Row("torch._foreach_neg([{x}, {t}])", is_number, results=2),
    Row("torch._foreach_abs([{x}, {t}])", results=2),
    Row("torch._foreach_lerp([{x}], [{like}], 0.5)[0]", is_float, tag="_foreach_lerp"),
    Row("torch._foreach_norm([{x}])[0]", is_float, inexact=True, tag="_foreach_norm"),
    Row("torch._foreach_add_([{x}], {k})", results=0),
    Row("torch._foreach_add_([{x}], [{like}], alpha=2)", results=0),
    Row("torch._foreach_mul_([{x}], [{like}])", results=0),
    Row("torch._foreach_copy_([{x}], [{like}])", results=0),
    Row("torch._foreach_zero_([{x}])", results=0),
    Row("torch._foreach_neg_([{x}])", is_number, results=0),
    Row("torch._foreach_addcmul_([{x}], [{like}], [{like2}], 2)", is_float, results=0),
    Row("torch._foreach_mul_([{x}[0], {x}[1]], 2)", lambda t: t.dim() > 0 and t.shape[0] > 1, results=0),
)
"""Rows for many tensors at once, with and without a write."""
