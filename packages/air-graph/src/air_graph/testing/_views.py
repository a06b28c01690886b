"""Views: every way in which a value may lie in the memory of another one."""

from __future__ import annotations

from typing import Final

import torch

from air_graph.testing._rows import Row
from air_graph.testing._scope import at_least, is_complex

some, pair = at_least(1), at_least(2)

VIEWS: Final = (
    Row("{x}.reshape({factors})"),
    Row("{x}.view({factors})"),
    Row("{x}.reshape(-1)"),
    Row("{x}.flatten({d})", some),
    Row("{x}.transpose({d}, {e})", pair),
    Row("{x}.transpose(0, -1)", pair),
    Row("{x}.t()", lambda t: t.dim() == 2),
    Row("{x}.mT", pair, tag="mT"),
    Row("{x}.permute({permutation})", pair),
    Row("{x}.movedim({d}, {e})", pair),
    Row("{x}[{a}:{b}]", some, tag="slice"),
    Row("{x}[:, {i}]", lambda t: t.dim() >= 2 and t.shape[1] == t.shape[0] and t.numel() > 0, tag="select"),
    Row("{x}[{a}:{b}:{s}]", lambda t: t.dim() == 1, tag="slice"),
    Row("{x}[..., ::2]", some, tag="slice"),
    Row("{x}[..., 1:]", some, tag="slice"),
    Row("{x}[:, : {x}.shape[1] // 2]", pair, tag="slice"),
    Row("{x}[{x}.shape[0] // 2 :]", some, tag="slice"),
    Row("{x}[0]", some, tag="select"),
    Row("{x}[-1]", some, tag="select"),
    Row("{x}[None]", tag="unsqueeze"),
    Row("{x}.select({d}, {i})", some),
    Row("{x}.narrow({d}, {a}, {len})", some),
    Row("{x}.chunk(2, {d})[-1]", some, tag="chunk"),
    Row("{x}.chunk(2, {d})", lambda t: bool(t.dim()) and all(s > 1 for s in t.shape), results=2),
    Row("{x}.split({piece}, {d})", some, count="parts"),
    Row("{x}.tensor_split({pieces}, {d})", some, count="pieces"),
    Row("{x}.unbind({d})", lambda t: bool(t.dim()) and max(t.shape) <= 4 and t.numel() > 0, count="length"),
    Row("{x}.unbind({d})[0]", some, tag="unbind"),
    Row("{x}.unsqueeze({d})"),
    Row("{x}.squeeze()"),
    Row("{x}.squeeze({d})", some),
    Row("{x}.unsqueeze(0).expand(2, *{x}.shape)", tag="expand"),
    Row("{x}.unsqueeze(-1).expand(*{x}.shape, 3)", tag="expand"),
    Row("{x}.expand_as({t})"),
    Row("{x}.broadcast_to({t}.shape)"),
    Row("{x}.diagonal()", pair),
    Row("{x}.diagonal(1, -2, -1)", pair),
    Row("{x}.unfold({d}, {len}, {k})", some),
    Row("{x}.as_strided({window})", some),
    Row("torch.as_strided({x}, {window})", some),
    Row("{x}.view({bits})", some, exact=True, tag="view_dtype"),
    Row("{x}.detach()"),
    Row("{x}.view_as({x})"),
    Row("{x}.contiguous()"),
    Row("{x}.real", is_complex, tag="real"),
    Row("{x}.imag", is_complex, tag="imag"),
    Row("torch.view_as_real({x})", is_complex),
    Row("{x}.conj()", is_complex),
    Row("{x}.mH", lambda t: t.dim() >= 2 and t.dtype.is_complex, tag="mH"),
    Row(
        "torch.view_as_complex({x})", lambda t: t.dtype == torch.float32 and t.dim() > 0 and t.shape[-1] == 2
    ),
    Row("torch.atleast_2d({x})"),
    Row("{x}.unflatten({d}, (-1, 2))", some),
    Row("torch.hsplit({x}, 2)[1]", lambda t: t.dim() == 2 and t.shape[1] % 2 == 0, tag="hsplit"),
)
"""Rows whose result is a view of `{x}` in most cases."""
