"""Random numbers whose distribution has parameters for each element: gamma, Dirichlet, Poisson, binomial."""

from __future__ import annotations

from typing import Any

import torch

from air_geir.building import Context, Value
from air_geir.converters._precision import working_dtype
from air_geir.converters._registry import converts
from air_geir.converters._rows import register_direct
from air_geir.converters._sample import Sample, f32

aten = torch.ops.aten


def _drawn(ctx: Context, op_type: str, *parameters: Value, wide: torch.dtype, **attrs: Any) -> Value:
    """One number for each element of the result, by its parameters."""
    seed, offset = ctx.random_state(ctx.out_shape)
    sizes = tuple(ctx.dim(size) for size in ctx.out_shape)
    key = ctx.emit("ConcatV2", [seed, offset], ctx.const(0, torch.int64), N=2, shape=(2,))
    spread = [ctx.broadcast(ctx.cast(parameter, wide), sizes) for parameter in parameters]
    return ctx.emit(op_type, ctx.shape(sizes), key, *spread, dtype=wide, shape=sizes, attrs=attrs)


def _gamma(ctx: Context, alpha: Value, dtype: torch.dtype) -> Value:
    """Never zero, as in eager: logarithms are taken of it."""
    drawn = _drawn(ctx, "StatelessRandomGammaV2", alpha, wide=dtype)
    return ctx.emit("Maximum", drawn, ctx.const(torch.finfo(dtype).tiny, dtype), shape=drawn.shape)


@converts(aten._standard_gamma.default)
def standard_gamma(ctx: Context, self: Value, generator: Any = None) -> Value:
    """_standard_gamma(Tensor self, Generator? generator=None) -> Tensor"""
    return ctx.cast(_gamma(ctx, self, working_dtype(self.dtype)), self.dtype)


@converts(aten._sample_dirichlet.default)
def sample_dirichlet(ctx: Context, self: Value, generator: Any = None) -> Value:
    """_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor

    Shares of numbers drawn from gamma distributions, in double: those of small parameters are near zero.
    """
    parts = _gamma(ctx, self, torch.float64)
    total = ctx.emit("ReduceSum", parts, [self.rank - 1], keep_dims=True, shape=(*self.dims[:-1], 1))
    shares = ctx.emit("RealDiv", parts, total, shape=parts.shape)
    limits = torch.finfo(self.dtype)
    low, high = (ctx.const(limit, torch.float64) for limit in (limits.tiny, 1 - limits.eps))
    return ctx.cast(ctx.emit("ClipByValueV2", shares, low, high, shape=parts.shape), self.dtype)


@converts(aten.poisson.default)
def poisson(ctx: Context, self: Value, generator: Any = None) -> Value:
    """poisson(Tensor self, Generator? generator=None) -> Tensor"""
    wide = working_dtype(self.dtype)
    return ctx.cast(_drawn(ctx, "StatelessRandomPoisson", self, wide=wide, dtype=wide), self.dtype)


@converts(aten.binomial.default)
def binomial(ctx: Context, count: Value, prob: Value, generator: Any = None) -> Value:
    """binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor"""
    wide = working_dtype(ctx.out_dtype)
    drawn = _drawn(ctx, "StatelessRandomBinomial", count, prob, wide=wide, dtype=wide)
    return ctx.cast(drawn, ctx.out_dtype)


_ALPHAS, _DRAWN = f32(3, 4, low=0.1, high=9), f32(3, 4, low=0.1, high=9)
register_direct(
    {"_standard_gamma_grad.default": ("RandomGammaGrad(self output)", [Sample(_ALPHAS, _DRAWN)])},
    "distributions",
)
