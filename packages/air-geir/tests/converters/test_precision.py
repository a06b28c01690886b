"""Half precision to the bit, complex numbers, and shifts, through torch.compile as a user calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch._dynamo.backends.common import aot_autograd

from air_geir import compile_graph
from air_geir.proof import check_call


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    run: Callable[..., Any] = torch.compile(function, backend=aot_autograd(fw_compiler=compile_graph))
    return run


HALF: dict[str, Callable[..., Any]] = {
    "addcmul": lambda a, b, c: torch.addcmul(a, b, c, value=0.3),
    "addcmul_tensors": lambda a, b, c: torch.addcmul(a, b, c),
    "addcdiv_tensors": lambda a, b, c: torch.addcdiv(a, b, c),
    "foreach_addcmul": lambda a, b, c: torch._foreach_addcmul([a], [b], [c], value=0.3)[0],
    "foreach_addcdiv": lambda a, b, c: torch._foreach_addcdiv([a], [b], [c], value=0.3)[0],
    "foreach_addcmul_list": lambda a, b, c: torch._foreach_addcmul([a], [b], [c], [0.3])[0],
    "foreach_lerp": lambda a, b, c: torch._foreach_lerp([a], [b], 0.3)[0],
    "lerp": torch.lerp,
    "lerp_number": lambda a, b, c: torch.lerp(a, b, 0.3),
    "add_alpha": lambda a, b, c: torch.add(a, b, alpha=0.3),
    "mul_number": lambda a, b, c: a * 0.3,
    "div_number": lambda a, b, c: a / 0.3,
    "div_trunc_number": lambda a, b, c: torch.div((a * 10).round() * 0.3, 0.3, rounding_mode="trunc"),
    "mul_single": lambda a, b, c: a * torch.full((), 0.3),
    "silu_mul": lambda a, b, c: F.silu(a) * b,
    "threshold": lambda a, b, c: F.threshold(a, 0.3, 0.1),
    "addr": lambda a, b, c: torch.addr(a[:8, None].expand(8, 8), b[:8], c[:8], beta=0.3, alpha=0.7),
    "addmv": lambda a, b, c: torch.addmv(a[:8], b.view(8, 8), c[:8], beta=0.3, alpha=0.7),
    "hypot": lambda a, b, c: torch.hypot(a, b),
    "copysign": lambda a, b, c: torch.copysign(a, b),
    "celu": lambda a, b, c: F.celu(a, 0.3),
    "mish": lambda a, b, c: F.mish(a),
    "logaddexp": lambda a, b, c: torch.logaddexp(a, b),
    "std": lambda a, b, c: (a * 100).std(0),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", HALF)
def test_N03_half_precision_is_rounded_as_eager_rounds_it(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    operands = [torch.randn(64).to(dtype) for _ in range(3)]
    assert torch.equal(compiled(HALF[name])(*operands), HALF[name](*operands))


def test_N03_a_fused_product_rounds_once() -> None:
    prims = pytest.importorskip("torch._inductor.inductor_prims")
    if not hasattr(prims, "fma"):
        pytest.skip("this torch has no fma")
    a, b, c = (torch.randn(64, dtype=torch.bfloat16) for _ in range(3))
    run = compiled(lambda a, b, c: torch.ops.prims.fma(a, b, c))
    assert torch.equal(run(a, b, c), (a.float() * b.float() + c.float()).bfloat16())


def test_N03_addcmul_in_place_is_compiled() -> None:
    def step(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return x.clone().addcmul_(a, b, value=0.3)

    operands = [torch.randn(64) for _ in range(3)]
    torch.testing.assert_close(compiled(step)(*operands), step(*operands))


@pytest.mark.parametrize("function", [torch.abs, torch.angle, torch.sgn, torch.var, torch.std, torch.isnan])
def test_N03_complex_numbers_mean_what_they_mean_in_eager(function: Callable[..., Any]) -> None:
    values = torch.tensor([3 + 4j, -1 + 0j, 0 - 2j, -5 - 12j])
    torch.testing.assert_close(compiled(function)(values), function(values))


@pytest.mark.parametrize(
    "function",
    [lambda x: x >> 2, lambda x: x << 3, lambda x: 1 << (x % 8), lambda x: x >> (x % 70), lambda x: x << 99],
)
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.int64], ids=str)
def test_N03_shifts_by_any_amount(function: Callable[..., Any], dtype: torch.dtype) -> None:
    x = torch.arange(100).to(dtype) if dtype == torch.uint8 else torch.arange(-50, 50).to(dtype)
    assert torch.equal(compiled(function)(x), function(x))


def test_N03_a_number_wraps_as_the_type_of_its_tensor_does() -> None:
    check_call(lambda x: (x * 300, x + 300, x == 300, x - 129), (torch.arange(60).to(torch.uint8),), {})
    check_call(lambda x: (x * 300, x + 300, x == 300, x - 129), (torch.arange(-30, 30).to(torch.int8),), {})


def test_N03_rows_of_unequal_length_are_compiled() -> None:
    rows = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=torch.jagged)
    weight = torch.randn(3, 4)
    for function in (
        lambda t: (t * 2).values(),
        lambda t: F.linear(t, weight).values(),
        lambda t: torch.softmax(t, -1).values(),
        lambda t: t.sum(1),
        lambda t: t.to_padded_tensor(0.5),
    ):
        torch.testing.assert_close(compiled(function)(rows), function(rows))


@pytest.mark.parametrize("size", [{"scale_factor": 2}, {"size": (7, 3)}], ids=["scale", "size"])
def test_N03_nearest_resizing_trains(size: dict[str, Any]) -> None:
    def gradient(resize: Callable[..., Any]) -> Any:
        image = torch.linspace(-1, 1, 32).reshape(1, 2, 4, 4).requires_grad_()
        made = resize(image)
        (made * torch.arange(made.numel()).reshape(made.shape)).sum().backward()
        return image.grad

    def resize(image: torch.Tensor) -> torch.Tensor:
        return F.interpolate(image, **size)

    torch.testing.assert_close(gradient(compiled(resize)), gradient(resize))


def test_N03_sampling_at_points_trains() -> None:
    def gradients(sample: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(0)
        image, points = (
            torch.randn(1, 2, 4, 4, requires_grad=True),
            (torch.rand(1, 3, 3, 2) * 2 - 1).requires_grad_(),
        )
        sample(image, points).square().sum().backward()
        return [image.grad, points.grad]

    def sample(image: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(image, points, align_corners=False)

    torch.testing.assert_close(gradients(compiled(sample)), gradients(sample))


def test_N03_an_argument_that_is_left_out_is_no_input_of_an_expansion() -> None:
    """`batch_norm` and `group_norm` without a weight: the value None among their arguments was taken for an input."""
    x = torch.randn(4, 6, 4)

    def norms(x: torch.Tensor) -> Any:
        return F.batch_norm(x, x.new_zeros(6), x.new_ones(6), training=True), F.group_norm(x, 2)

    for found, expected in zip(compiled(norms)(x), norms(x), strict=True):
        torch.testing.assert_close(found, expected)
