"""The gradient of bicubic sampling is in the graph."""

from __future__ import annotations

import pytest
import torch

from air_geir.proof import check_call, compile_call

backward = torch.ops.aten.grid_sampler_2d_backward.default


def operands(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """With points outside of the image."""
    torch.manual_seed(0)
    points = torch.rand(2, 4, 3, 2) * 2.6 - 1.3
    return torch.randn(2, 3, 4, 3).to(dtype), torch.randn(2, 3, 5, 6).to(dtype), points.to(dtype)


@pytest.mark.parametrize(
    ("padding", "corners", "dynamic"),
    [(0, False, False), (1, True, False), (2, False, False), (0, True, True)],
)
def test_N03_the_gradient_of_bicubic_sampling_is_that_of_eager(
    padding: int, corners: bool, dynamic: bool
) -> None:
    """In double precision: in 32 bits the two round the sums of sixteen places otherwise."""
    given = operands(torch.float64)
    check_call(lambda *given: backward(*given, 2, padding, corners, [True, True]), given, {}, dynamic=dynamic)


def test_N03_the_gradient_of_bicubic_sampling_of_halves_is_rounded_once() -> None:
    given = operands(torch.bfloat16)

    def call(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return backward(*given, 2, 0, False, [True, True])  # type: ignore[no-any-return]

    run, tensors = compile_call(call, given, {})
    exact = call(*(x.double() for x in given))
    for found, wanted in zip(run(*tensors), exact, strict=True):
        torch.testing.assert_close(found, wanted.bfloat16(), rtol=2**-7, atol=1e-3)
