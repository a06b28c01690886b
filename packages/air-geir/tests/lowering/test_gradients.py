"""Gradients that torch keeps as one operator and that are written with simpler ones here, against torch's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from air_geir.errors import UnsupportedGraphError
from air_geir.proof import check_call, compile_call

aten = torch.ops.aten
HIDDEN = float("-inf")
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.3},
    "masked": {"attn_mask": torch.tensor([[0.0] * 5, [HIDDEN] * 5, [0.0, HIDDEN, -1.0, 0.0, 0.0]])},
}


def attention_gradient(**options: Any) -> Callable[..., Any]:
    causal = options.pop("is_causal", False)

    def gradient(grad: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Any:
        given = {name: x.to(grad.dtype) if name == "attn_mask" else x for name, x in options.items()}
        forward = aten._scaled_dot_product_flash_attention_for_cpu
        backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
        out, sums = forward(query, key, value, 0.0, causal, **given)
        return backward(grad, query, key, value, out, sums, 0.0, causal, **given)

    return gradient


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("heads", [4, 2])
@pytest.mark.parametrize("name", OPTIONS)
def test_N03_the_gradient_of_attention_on_the_cpu(name: str, heads: int, dynamic: bool) -> None:
    torch.manual_seed(0)
    grad, query = torch.randn(2, 4, 3, 8), torch.randn(2, 4, 3, 8)
    key, value = (torch.randn(2, heads, 5, 8) for _ in range(2))
    check_call(attention_gradient(**OPTIONS[name]), (grad, query, key, value), {}, dynamic=dynamic)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_N03_the_gradient_of_attention_of_halves_is_rounded_once(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    operands = [torch.randn(1, 2, 6, 8, dtype=dtype) for _ in range(4)]
    exact = attention_gradient()(*(x.double() for x in operands))
    run, tensors = compile_call(attention_gradient(), tuple(operands), {})
    for got, want in zip(run(*tensors), exact, strict=True):
        error = (got.double() - want).abs().max() / want.abs().max()
        assert got.dtype == dtype
        assert error < 2 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("shape", "dim"), [((4, 3, 5), 0), ((4, 3, 5), 2), ((4, 3), -1), ((4,), 0)], ids=str)
def test_N03_weight_normalisation_and_its_gradient(
    shape: tuple[int, ...], dim: int, dtype: torch.dtype
) -> None:
    """A weight of one axis as well: torch's decomposition takes the norm of the whole vector there."""

    def both(grad: Tensor, v: Tensor, g: Tensor) -> Any:
        weight, norms = aten._weight_norm_interface(v, g, dim % v.dim())
        return weight, aten._weight_norm_interface_backward(grad, v, g, norms, dim % v.dim())

    torch.manual_seed(0)
    lengths = [size if at == dim % len(shape) else 1 for at, size in enumerate(shape)]
    v, grad, g = (torch.randn(*sizes).to(dtype) for sizes in (shape, shape, lengths))
    check_call(both, (grad, v, g), {})


def test_N03_the_gradient_of_a_transposed_convolution_padded_by_a_whole_step_is_left_to_eager() -> None:
    """A convolution of the gradient would be larger than the input."""

    def gradient(grad: Tensor, x: Tensor, weight: Tensor) -> Any:
        sizes = ([3], [1, 1], [0, 0], [2, 2], True, [1, 1], 1, [True] * 3)
        return aten.convolution_backward(grad, x, weight, *sizes)

    x, weight = torch.randn(2, 4, 5, 5), torch.randn(4, 3, 3, 3)
    grad = torch.randn(2, 3, 10, 10)
    with pytest.raises(UnsupportedGraphError, match="padded by a whole step"):
        compile_call(gradient, (grad, x, weight), {})
