"""Writes: in place, through views, by index, into an `out=`, and for many tensors at once."""

from __future__ import annotations

from functools import partial
from typing import Final

import torch

from air_graph.testing._rows import Row
from air_graph.testing._scope import at_least, is_complex, is_float, is_number

some, pair = at_least(1), at_least(2)
write = partial(Row, results=0)
write_apart = partial(Row, results=0, apart=True)

WRITES: Final = (
    write("{x}.add_({c})"),
    write("{x}.add_({y})"),
    write("{x}.add_({y}, alpha={k})", is_number),
    write("{x}.sub_({y})", is_number),
    write("{x}.mul_({c})"),
    write("{x}.mul_({y})"),
    write("{x} += {y}", tag="iadd"),
    write("{x}.copy_({y})"),
    write("{x}.copy_({like}.flip(0))", some),
    write("{x}.zero_()"),
    write("{x}.fill_({c})"),
    write("{x}.neg_()", is_number),
    write("{x}.abs_()", is_number),
    write("{x}.relu_()", is_float),
    write("{x}.clamp_(-1, 2)", is_number),
    write("{x}.sigmoid_()", is_float, inexact=True),
    write("{x}.lerp_({like}, 0.5)", is_float),
    write("{x}.addcmul_({like}, {like2}, value=2)", is_float),
    write("{x}.fill_diagonal_({k})", lambda t: t.dim() == 2),
    write("{x}.tril_()", pair),
    write("{x}.cumsum_({d})", lambda t: t.dim() > 0 and t.dtype != torch.bool),
    write("{x}[{i}] = {c}", some, tag="setitem_select"),
    write("{x}[{a}:{b}] = {c}", some, tag="setitem_slice"),
    write("{x}[..., {a}:] = {t}[..., {a}:]", some, tag="setitem_slice"),
    write("{x}[{a}:{b}] = {t}[{a}:{b}]", some, tag="setitem_slice"),
    write("{x}[..., ::2] += 1", some, tag="setitem_slice"),
    write("{x}[{x}.shape[0] // 2 :] = {c}", some, tag="setitem_slice"),
    write("{x}[torch.tensor([0, -1], device={x}.device)] = {c}", some, tag="setitem_rows"),
    write("{x}[{rows}] = {c}", lambda t: t.dim() == 1 and t.numel() > 0, tag="setitem_rows"),
    write("{x}[{mask}] = {c}", some, tag="setitem_mask"),
    write("{x}[{mask}] *= 2", some, tag="setitem_mask"),
    write("{x}[{mask}] = {like}[{mask}]", some, tag="setitem_mask"),
    write("{x}.masked_fill_({mask}, {c})", some),
    write("{x}.index_fill_({d}, {rows}, {c})", some),
    write_apart("{x}.index_add_({d}, {rows}, {like}.index_select({d}, {rows}))", some),
    write_apart("{x}.index_copy_({d}, {rows}, {like}.index_select({d}, {rows}))", some),
    write_apart("{x}.index_put_(({rows},), {like}[:{many}], accumulate={flag})", lambda t: t.dim() == 1),
    write_apart("{x}.scatter_({d}, {like}.argsort(dim={d}, stable=True), {c})", some, exact=True),
    write_apart("{x}.scatter_({d}, {like}.argsort(dim={d}, stable=True), {like2})", some, exact=True),
    write_apart("{x}.scatter_add_({d}, {like}.argsort(dim={d}, stable=True), {like2})", some, exact=True),
    write("{x}.t().add_({c})", lambda t: t.dim() == 2),
    write("{x}.t().copy_({like}.t())", lambda t: t.dim() == 2),
    write("{x}.transpose(0, -1).mul_({c})", pair),
    write("{x}[0].add_({c})", some),
    write("{x}[..., -1].zero_()", some),
    write("{x}.view(-1)[::2].zero_()", some),
    write("{x}.diagonal().fill_({k})", pair),
    write("{x}.narrow({d}, {a}, 1).mul_(2)", some),
    write("{x}.chunk(2)[0].add_(1)", some),
    write("{x}.select({d}, {i}).copy_({like}.select({d}, 0))", some),
    write("{x}.squeeze_()"),
    write("{x}.unsqueeze_({d})"),
    write("{x}.t_()", lambda t: t.dim() == 2),
    write("{x}.transpose_({d}, {e})", pair),
    write("{x}.real.add_({k})", is_complex),
    write("torch.view_as_real({x})[..., 1].neg_()", is_complex),
)
"""Rows that write to `{x}` in place."""

OUTS: Final = (
    write("torch.add({y}, {like}, out={x})"),
    write("torch.mul({like}, {k}, out={x})"),
    write("torch.neg({like}, out={x})", is_number),
    write("torch.clamp({like}, -1, 1, out={x})", is_number),
    write("torch.maximum({like}, {like2}, out={x})", is_number),
    write_apart("torch.stack([{like}[0], {like2}[-1]], out={x}[:2])", some),
    write_apart("torch.cat([{like}[:1], {like2}[1:]], out={x})", some),
    write_apart("torch.sum({like}, 0, out={x}[0])", lambda t: t.dim() > 0 and is_float(t) and t.numel() > 0),
    write_apart("torch.matmul({like}, {like2}, out={x})", lambda t: t.dim() == 2 and is_float(t)),
    write("torch.add({like}, 1, out={x}.t())", lambda t: t.dim() == 2 and t.shape[0] == t.shape[1]),
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
    write("torch._foreach_add_([{x}], {k})"),
    write("torch._foreach_add_([{x}], [{like}], alpha=2)"),
    write("torch._foreach_mul_([{x}], [{like}])"),
    write("torch._foreach_copy_([{x}], [{like}])"),
    write("torch._foreach_zero_([{x}])"),
    write("torch._foreach_neg_([{x}])", is_number),
    write("torch._foreach_addcmul_([{x}], [{like}], [{like2}], 2)", is_float),
    write("torch._foreach_mul_([{x}[0], {x}[1]], 2)", lambda t: t.dim() > 0 and t.shape[0] > 1),
)
"""Rows for many tensors at once, with and without a write."""
