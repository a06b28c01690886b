"""How results are held to those of eager: by layout, values and gradients; and the operators that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

#: What draws random numbers, or hands out memory that nobody has written; `resize_` has no rule for such operands.
DRAWN_OR_UNWRITTEN = (
    "alpha", "bernoulli", "cauchy", "dropout", "empty", "exponential", "geometric", "jiterator", "log_normal",
    "multinomial", "nonzero_static", "normal", "rand", "resize", "rrelu", "uniform",
)  # fmt: skip
CLOSE = {torch.bfloat16: (4e-2, 4e-2), torch.float16: (2e-2, 2e-2)}


def gradients(
    results: Any, operands: Any, given: Callable[[Tensor], Tensor] = torch.ones_like
) -> list[Tensor]:
    outputs = [x for x in tree_leaves(results) if isinstance(x, Tensor) and x.requires_grad]
    inputs = [x for x in tree_leaves(operands) if isinstance(x, Tensor) and x.requires_grad]
    if not outputs or not inputs:
        return []
    found: Any = torch.autograd.grad(outputs, inputs, [given(x) for x in outputs], allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


def judged(program: Callable[[Callable[..., Any]], Any], expected: Any, way: Callable[..., Any]) -> str:
    """What a program gives otherwise, or raises, where `way` compiles its functions; empty where all is as in eager."""
    torch._dynamo.reset()
    try:
        return difference(expected, program(way))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def difference(expected: Any, found: Any) -> str:
    """What is not as in eager; empty where all is."""
    theirs, mine = tree_leaves(expected), tree_leaves(found)
    if len(theirs) != len(mine):
        return f"{len(mine)} results, {len(theirs)} in eager"
    return next(filter(None, map(difference_of_one, theirs, mine)), "")


def difference_of_one(expected: Any, found: Any) -> str:
    if not isinstance(expected, Tensor) or expected.layout is not torch.strided:
        return ""
    return layout_difference(expected, found) or _value_difference(expected, found)


def layout_difference(expected: Tensor, found: Tensor) -> str:
    for what in ("shape", "dtype", "requires_grad"):
        if getattr(expected, what) != getattr(found, what):
            return f"{what} {getattr(found, what)}, {getattr(expected, what)} in eager"
    strides = zip(expected.shape, expected.stride(), found.stride(), strict=True)
    if expected.numel() and any(one != other and size > 1 for size, one, other in strides):
        return f"strides {found.stride()}, {expected.stride()} in eager, of {tuple(expected.shape)}"
    if expected.numel() and expected.storage_offset() != found.storage_offset():
        return f"offset {found.storage_offset()}, {expected.storage_offset()} in eager"
    return ""


def _value_difference(expected: Tensor, found: Tensor) -> str:
    relative, absolute = CLOSE.get(expected.dtype, (1e-4, 1e-4))
    plain = [x.detach().resolve_conj().resolve_neg() for x in (found, expected)]
    try:
        torch.testing.assert_close(*plain, equal_nan=True, rtol=relative, atol=absolute)
    except AssertionError as wrong:
        return str(wrong)
    return ""
