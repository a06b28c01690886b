"""Arithmetic, copies, reads by index, reductions, norms, products, complex numbers and conversions."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from air_graph.testing._rows import Row
from air_graph.testing._scope import at_least, both, is_complex, is_float, is_integer, is_number

some, pair = at_least(1), at_least(2)


def square(value: Tensor) -> bool:
    return value.dim() == 2 and value.shape[0] == value.shape[1] and value.dtype != torch.bool


def matrix(value: Tensor) -> bool:
    return value.dim() == 2 and value.dtype != torch.bool


def whole(value: Tensor) -> bool:
    return is_integer(value) or value.dtype == torch.bool


def plain(value: Tensor) -> bool:
    return value.dtype == torch.float32


def not_scalar(value: Tensor) -> bool:
    return value.dim() > 0


def not_empty(value: Tensor) -> bool:
    return value.numel() > 0


floating, numbers = both(is_float, some), both(is_number, some)
plain_some, complex_some = both(plain, not_scalar), both(is_complex, not_empty)
picture = both(plain, at_least(4), lambda t: t.dim() == 4)


#: Tensors that the host makes of literals and sizes, and that go to the device of another one.
CONSTANTS: Final = (
    Row("{x} * torch.arange({x}.shape[-1]).to({x}.device)", some, tag="arange.to"),
    Row("torch.arange({x}.shape[0]).add(1).to({x}.device)", some, tag="arange.add.to"),
    Row("torch.tensor([1.5, -2.0, 0.25]).to({x}.device)", tag="literal.to"),
    Row("torch.tensor(3).type_as({x})", tag="literal.type_as"),
    Row("{x} + torch.tensor(2.5)", is_number, tag="literal"),
    Row("torch.triu(torch.ones({x}.shape[-1], {x}.shape[-1]), 1).to({x}.device)", some, tag="triu.to"),
    Row("{x}[torch.arange({x}.shape[0] - 1, -1, -1)]", some, tag="getitem_host_rows"),
    Row(
        "torch.zeros({x}.shape[-1]).to({x}.device).add_({x}.sum())",
        plain_some,
        inexact=True,
        tag="zeros.to.add_",
    ),
)
#: Tensors in the memory of the CPU beside those of a device, and ways there and back.
HOST: Final = (
    Row("{x}.cpu()"),
    Row("{x}.to({t}.device)", tag="to_device"),
    Row("torch.arange({x}.shape[0]) * 2", some, tag="arange"),
    Row("torch.ones({x}.shape).tril()", pair, tag="ones"),
    Row("torch.tensor([1.5, -2.0]) + 1", tag="literal"),
    Row("{x}.cpu().add(1)", is_number, tag="cpu.add"),
    Row("{x}.copy_({like}.cpu())", results=0, tag="copy_from_cpu"),
)
ARITHMETIC: Final = (
    Row("{x} + {y}", tag="add"),
    Row("{x} + {c}", tag="add"),
    Row("{x} * 2", tag="mul"),
    Row("{x} * {y}", tag="mul"),
    Row("{x} - {y}", is_number, tag="sub"),
    Row("{c} - {x}", is_number, tag="rsub"),
    Row("{x} / 2", is_number, tag="div"),
    Row("{x} / ({y}.abs() + 1)", is_number, inexact=True, tag="div"),
    Row("-{x}", is_number, tag="neg"),
    Row("{x}.abs()", is_number),
    Row("{x}.relu()", is_number),
    Row("{x}.square()", is_number),
    Row("{x}.sign()", is_number, exact=True),
    Row("{x}.floor()", is_number, exact=True),
    Row("{x}.round()", is_number, exact=True),
    Row("{x}.clamp(-1, {k})", is_number),
    Row("{x}.clamp_min({c})", is_number),
    Row("torch.maximum({x}, {y})", is_number),
    Row("torch.fmax({x}, {y})", is_number),
    Row("torch.fmin({x}, {y})", is_number),
    Row("torch.hypot({x}, {like})", is_float, inexact=True),
    Row("torch.atan2({x}, {like})", is_float, inexact=True, exact=True),
    Row("torch.remainder({x}, 3)", is_number, exact=True),
    Row("{x} // 2", is_number, exact=True, tag="floor_divide"),
    Row("torch.lerp({x}, {like}, 0.5)", is_float),
    Row("torch.addcmul({x}, {like}, {like2}, value=2)", is_float),
    Row("torch.addcdiv({x}, {like}, {like2}.abs() + 1)", is_float, inexact=True),
    Row("{x} ** 2", is_number, tag="pow"),
    Row("torch.where({mask}, {x}, {like})", some),
    Row("torch.where({x} > {y}, {x}, {c})", is_number, exact=True),
    Row("{x} > {y}", is_number, exact=True, tag="gt"),
    Row("{x} == {y}", exact=True, tag="eq"),
    Row("{x} <= 0", is_number, exact=True, tag="le"),
    Row("~{x}", whole, tag="bitwise_not"),
    Row("{x} & {like}", whole, tag="bitwise_and"),
    Row("{x} ^ {like}", whole, tag="bitwise_xor"),
    Row("{x} >> 1", is_integer, tag="rshift"),
    Row("{x}.logical_not()", exact=True),
    Row("{x}.sin()", is_float, inexact=True),
    Row("{x}.tanh()", is_float, inexact=True),
    Row("{x}.sigmoid()", is_number, inexact=True),
    Row("{x}.clamp(-4, 4).exp()", is_float, inexact=True, tag="exp"),
    Row("({x}.abs() + 1).log()", is_float, inexact=True, tag="log"),
    Row("{x}.abs().sqrt()", is_float, inexact=True, tag="sqrt"),
    Row("F.gelu({x})", is_float, inexact=True),
    Row("F.silu({x})", is_float, inexact=True),
    Row("F.leaky_relu({x}, 0.5)", is_float),
)

COPIES: Final = (
    Row("{x}.clone()"),
    Row("{x}.flip(0)", some),
    Row("{x}.roll({k}, {d})", some),
    Row("{x}.repeat(2, *[1] * ({x}.dim() - 1))", some),
    Row("{x}.repeat_interleave(2, {d})", some),
    Row("torch.cat([{x}, {like}], {d})", some),
    Row("torch.cat([{x}, {x}[:1]])", some),
    Row("torch.stack([{x}, {like}], {d})"),
    Row("torch.as_strided_copy({x}, {window})", some),
    Row("torch.unfold_copy({x}, {d}, {len}, {k})", some),
    Row("torch.as_strided_scatter({x}, {x}.as_strided({window}) + 1, {window})", some),
    Row("torch.slice_scatter({x}, {x}[{a}:{b}] * 2, 0, {a})", some),
    Row("torch.select_scatter({x}, {x}.select({d}, 0), {d}, {i})", some),
    Row("torch.diagonal_scatter({x}, {x}.diagonal() + 1)", pair),
    Row("{x}.contiguous(memory_format=torch.channels_last)", lambda t: t.dim() == 4),
    Row("{x}.tril()", pair),
    Row("{x}.triu(1)", pair),
    Row("F.pad({x}, (1, {k}))", some),
    Row("torch.zeros_like({x})"),
    Row("torch.full_like({x}, {c})"),
    Row("{x}.new_ones({shape})"),
    Row("torch.empty_like({x}).copy_({x})", tag="empty_like.copy_"),
    Row("torch.arange({x}.shape[0], device={x}.device)", some, tag="arange"),
    Row("torch.tensor([1.0, 2.0, 4.0], device={x}.device)", tag="tensor"),
    Row("torch.outer({x}, {like})", lambda t: t.dim() == 1 and t.numel() > 0),
    Row("torch.block_diag({x}, {x})", matrix),
)

READS: Final = (
    Row("{x}[{rows}]", lambda t: t.dim() == 1 and t.numel() > 0, tag="getitem_rows"),
    Row("{x}[torch.tensor([0, -1, 0], device={x}.device)]", some, tag="getitem_rows"),
    Row("{x}[..., torch.tensor([0], device={x}.device)]", some, tag="getitem_rows"),
    Row("{x}[:, [1, 0]]", lambda t: t.dim() >= 2 and t.shape[1] > 1, tag="getitem_rows"),
    Row("{x}.index_select({d}, {rows})", some),
    Row("{x}.gather({d}, {like}.argsort(dim={d}, stable=True))", some, exact=True),
    Row("torch.take_along_dim({x}, {like}.argsort(dim={d}, stable=True), {d})", some, exact=True),
    Row("{x}.take(torch.tensor([0, 1], device={x}.device))", some),
    Row("torch.where({mask}, {x}, 0)", some),
    Row("{x}.masked_fill({mask}, {c})", some),
    Row("{x}[{mask}]", some, tag="getitem_mask"),
    Row("{x}.nonzero()", some, exact=True),
    Row("{x}.unique()", is_number, exact=True),
    Row("{x} * {x}.sum().item()", is_number, inexact=True, exact=True, tag="item"),
    Row("{x}.index_add({d}, {rows}, {x}.index_select({d}, {rows}))", some),
    Row("{x}.scatter({d}, {x}.argsort(dim={d}, stable=True), {like})", some, exact=True),
    Row("{x}.index_put(({rows},), {x}[:{many}])", lambda t: t.dim() == 1 and t.numel() > 0),
    Row("F.embedding({x}.abs() % 3, {t})", lambda t: t.dtype == torch.int64, tag="embedding"),
)

REDUCTIONS: Final = (
    Row("{x}.sum()"),
    Row("{x}.sum({d})", some),
    Row("{x}.sum({d}, keepdim=True)", some),
    Row("{x}.mean()", is_float, inexact=True),
    Row("{x}.mean({d}, keepdim={flag})", floating, inexact=True),
    Row("{x}.amax({d})", numbers),
    Row("{x}.max({d})", numbers, results=2, exact=True),
    Row("{x}.min()", both(is_number, not_empty)),
    Row("{x}.argmax({d})", numbers, exact=True),
    Row("{x}.any()", exact=True),
    Row("{x}.all({d})", some, exact=True),
    Row("{x}.count_nonzero()", exact=True),
    Row("{x}.prod({d})", both(is_number, not_scalar), inexact=True),
    Row("{x}.var({d})", floating, inexact=True),
    Row("{x}.std()", floating, inexact=True),
    Row("{x}.norm()", floating, inexact=True),
    Row("{x}.cumsum({d})", some),
    Row("{x}.logsumexp({d})", floating, inexact=True),
    Row("{x}.softmax({d})", floating, inexact=True),
    Row("{x}.log_softmax({d})", floating, inexact=True),
    Row("{x}.sort(dim={d}, stable=True)", both(is_number, not_scalar), results=2, exact=True),
    Row("{x}.argsort(dim={d}, stable=True)", both(is_number, not_scalar), exact=True),
    Row("{x}.sort({d}).values", both(is_number, not_scalar), tag="sort"),
    Row("{x}.topk(1, {d}).values", numbers, tag="topk"),
    Row("{x}.cummax({d}).values", numbers, tag="cummax"),
    Row("{x}.unique()", both(is_number, not_empty), exact=True),
)

PRODUCTS: Final = (
    Row("{x} @ {like}", square, tag="matmul"),
    Row("{x} @ {like}.t()", matrix, tag="matmul"),
    Row("{x} @ {x}.mT", lambda t: t.dim() >= 2 and is_float(t), tag="matmul"),
    Row("torch.bmm({x}, {x}.mT)", lambda t: t.dim() == 3 and is_float(t)),
    Row("F.linear({x}, {like})", lambda t: t.dim() == 2 and is_float(t)),
    Row("torch.addmm({x}, {like}, {like2})", lambda t: square(t) and is_float(t)),
    Row('torch.einsum("ij,kj->ik", {x}, {like})', lambda t: t.dim() == 2 and is_float(t)),
    Row("F.layer_norm({x}, {x}.shape[-1:])", floating, inexact=True),
    Row("F.rms_norm({x}, {x}.shape[-1:])", floating, inexact=True),
    Row("F.group_norm({x}, 1)", lambda t: floating(t) and t.dim() >= 3, inexact=True),
    Row(
        "F.batch_norm({x}, {x}.new_zeros({x}.shape[1]), {x}.new_ones({x}.shape[1]), training={flag})",
        lambda t: plain(t) and t.dim() >= 2 and t.shape[0] > 1,
        inexact=True,
        tag="batch_norm",
    ),
    Row("F.conv2d({x}, {x}[:1])", picture, inexact=True),
    Row("F.avg_pool2d({x}, 2, 1)", picture, inexact=True),
    Row("F.max_pool2d({x}, 2, 1)", picture),
    Row("F.interpolate({x}, scale_factor=2)", picture),
    Row(
        "F.scaled_dot_product_attention({x}, {x}, {like})", lambda t: plain(t) and t.dim() >= 3, inexact=True
    ),
)

COMPLEX: Final = (
    Row("torch.complex({x}, {like})", plain),
    Row("{x}.abs()", complex_some, inexact=True),
    Row("{x}.angle()", complex_some, inexact=True, exact=True),
    Row("{x} * {x}", complex_some, tag="mul"),
    Row("{x} * 1j", is_number, tag="mul"),
    Row("{x}.conj() * 2", complex_some, tag="conj.mul"),
    Row("{x}.conj().resolve_conj()", complex_some),
    Row("{x}.sum({d})", complex_some),
    Row("{x}.real + {x}.imag", complex_some, tag="real.imag"),
    Row("{x}.reciprocal()", complex_some, inexact=True),
    Row("{x} @ {x}.mH", lambda t: t.dim() == 2 and complex_some(t), tag="matmul"),
)

CASTS: Final = (
    Row("{x}.to({dtype})", lambda t: not is_complex(t), exact=True),
    Row("{x}.to({real})", lambda t: not is_complex(t), inexact=False),
    Row("{x}.float()", lambda t: not is_complex(t)),
    Row("{x}.half()", lambda t: not is_complex(t)),
    Row("{x}.bool()", exact=True),
    Row("{x}.long()", lambda t: not is_complex(t), exact=True),
    Row("{x}.to({t}.dtype)", lambda t: not is_complex(t), exact=True),
    Row("{x}.type_as({t})", lambda t: not is_complex(t), exact=True),
)
