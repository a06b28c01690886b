"""Results on an NPU lie as torch_npu lays them out, which torch's example values do not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytestmark = pytest.mark.npu("torch_npu lays results out in its own way")


def with_a_part_on_the_host(x: Tensor) -> tuple[Tensor, ...]:
    return x.tanh(), x.cpu().add(1)[None]


def read_by_strides(x: Tensor) -> tuple[Tensor, ...]:
    largest = torch.maximum(x, x)
    return torch.as_strided(largest, (3,), (1,)) + 1, largest


def read_by_strides_and_cut(x: Tensor) -> Tensor:
    seen = torch.as_strided(torch.maximum(x, x), (3,), (1,))
    return seen[torch.tensor([1, 0], device=x.device)]


def written_in_the_layout_of_a_copy(x: Tensor) -> Tensor:
    return torch.clone(x).addcmul_(x, x, value=2)


def chosen(x: Tensor) -> Tensor:
    result: Tensor = torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, (x.t(),))
    return result


def normed(x: Tensor, *, training: bool) -> Tensor:
    columns = x.shape[1]
    return nn.functional.batch_norm(x, x.new_zeros(columns), x.new_ones(columns), training=training)


TURNED: dict[str, Callable[[Tensor], Any]] = {
    "sum": lambda x: x.t() + 1,
    "in place": lambda x: (x * 2).t().relu_() * 3,
    "sorted": lambda x: x.sort(-1).values.transpose(0, -1).relu(),
    "cast": lambda x: x.half() * torch.arange(x.shape[-1], device=x.device),
    "cast after a sum": lambda x: ((x + 1).t() * 2).half(),
    "filled": lambda x: torch.ops.aten.fill.Scalar(x.t(), 1.0),
    "diagonal": lambda x: torch.diagonal_scatter(x.t(), x[0]),
    "with a part on the host": with_a_part_on_the_host,
    "read by strides": read_by_strides,
    "read by strides and cut": read_by_strides_and_cut,
    "written in the layout of a copy": written_in_the_layout_of_a_copy,
    "turned round": torch.rot90,
    "normed by what was seen": lambda x: normed(x.t(), training=False),
    "normed": lambda x: normed(x.t(), training=True),
    "chosen by a branch": chosen,
}


def place(value: Tensor) -> tuple[tuple[int, ...], Any]:
    return value.stride(), value.storage_offset()


def assert_same(found: Any, expected: Any) -> None:
    several = isinstance(expected, tuple)
    for one, other in zip(*((found, expected) if several else ((found,), (expected,))), strict=True):
        torch.testing.assert_close(one, other)
        assert place(one) == place(other)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("name", TURNED)
@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_N25_on_an_npu_results_lie_as_torch_npu_lays_them_out(name: str, mode: str) -> None:
    torch._dynamo.reset()
    run = torch.compile(TURNED[name], backend="air", dynamic=False, options={"mode": mode})
    for turned in (False, True):
        x = torch.arange(16.0, device="npu").reshape(4, 4)
        x = x.t() if turned else x
        assert_same(run(x), TURNED[name](x))


TRAINED: dict[str, Callable[[Tensor], Any]] = {
    "layer by layer": lambda x: ((x.t() * 2).sigmoid(), (x.exp() * x).t().log1p()),
    "products": lambda x: (x @ x.t()).floor() * x + (x.t() - 1).atan2(x),
    "chosen": lambda x: torch.where(x > 3, x, x.t() * x),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.filterwarnings("ignore::air_backend.errors.GraphSplit")
def test_N25_results_and_gradients_of_a_training_step_lie_as_torch_npu_lays_them_out(
    name: str, mode: str
) -> None:
    function = TRAINED[name]
    torch._dynamo.reset()
    run = torch.compile(function, backend="air", dynamic=False, options={"mode": mode})
    for number in range(4):
        x, y = (
            (torch.arange(16.0, device="npu").reshape(4, 4) + number).t().requires_grad_() for _ in range(2)
        )
        found, expected = run(x), function(y)
        assert_same(found, expected)
        for result in (found, expected):
            results = result if isinstance(result, tuple) else (result,)
            torch.autograd.backward([one.abs().sum() for one in results])
        torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_N25_a_conjugated_result_of_a_training_step_is_conjugated_in_each_call(mode: str) -> None:
    torch._dynamo.reset()
    run = torch.compile(lambda x: torch.complex(x, x).conj(), backend="air", options={"mode": mode})
    for number in range(4):
        x = (torch.arange(6.0, device="npu") + number).requires_grad_()
        found, expected = run(x), torch.complex(x, x).conj()
        assert found.is_conj() == expected.is_conj()
        torch.testing.assert_close(found.resolve_conj(), expected.resolve_conj())
