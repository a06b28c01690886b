"""What a caller keeps of a compiled function stays what it was, in both modes: outputs, views of them, gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

CALLS = 12
MODES = ("reduce-overhead", "max-autotune")

pytestmark = pytest.mark.parametrize("mode", MODES)


def compiled(function: Callable[..., Any], mode: str, **options: Any) -> Callable[..., Any]:
    run: Callable[..., Any] = torch.compile(function, backend="air", options={"mode": mode}, **options)
    return run


def several(x: Tensor) -> tuple[Tensor, ...]:
    doubled = x * 2
    return doubled, doubled[1:], x.t(), x + 1


WAYS: tuple[Callable[[Tensor], Any], ...] = (
    lambda t: t,
    lambda t: t[:1],
    lambda t: t.detach(),
    lambda t: t.untyped_storage(),
)


def first_value(kept: Any, device: str) -> float:
    if isinstance(kept, torch.UntypedStorage):
        kept = torch.empty(0, device=device).set_(kept, 0, (1,), (1,))
    return float(kept.flatten()[0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.parametrize("unkept", [0, 8])
def test_N25_outputs_that_are_kept_stay_what_they_were(unkept: int, way: int, device: str, mode: str) -> None:
    run = compiled(several, mode)
    with torch.no_grad():
        for _ in range(unkept):
            run(torch.ones(3, 3, device=device))
        kept = [WAYS[way](run(torch.full((3, 3), float(n), device=device))[0]) for n in range(CALLS)]
    assert [first_value(one, device) for one in kept] == [2.0 * n for n in range(CALLS)]


def test_N25_outputs_of_several_sizes_stay_what_they_were(device: str, mode: str) -> None:
    run = compiled(lambda x: x * 2 + 1, mode, dynamic=True)
    sizes = (3, 4, 5, 3, 4, 5, 3, 3, 3, 4)
    with torch.no_grad():
        kept = [run(torch.full((n, 3), float(number), device=device)) for number, n in enumerate(sizes)]
    for number, (one, rows) in enumerate(zip(kept, sizes, strict=True)):
        assert one.tolist() == [[2.0 * number + 1] * 3] * rows


def test_N25_outputs_that_are_fed_back_are_read_before_they_are_written(device: str, mode: str) -> None:
    run = compiled(several, mode)
    x = torch.ones(3, 3, device=device)
    with torch.no_grad():
        for step in range(1, CALLS):
            x = run(x)[0]
            assert x.tolist() == [[2.0**step] * 3] * 3


def training(device: str) -> tuple[Tensor, list[Tensor], Callable[[Tensor], Tensor]]:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(4, 4, device=device))
    inputs = [torch.randn(3, 4, device=device) for _ in range(CALLS)]
    return weight, inputs, lambda x: (torch.mm(x, weight) * x).sum()


def assert_all_close(found: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_N25_gradients_that_are_kept_stay_what_they_were(device: str, mode: str) -> None:
    weight, inputs, loss = training(device)
    expected = [torch.autograd.grad(loss(x), [weight])[0] for x in inputs]
    run = compiled(loss, mode)
    assert_all_close([torch.autograd.grad(run(x), [weight])[0] for x in inputs], expected)
    losses = [run(x) for x in inputs]
    assert_all_close([torch.autograd.grad(one, [weight])[0] for one in losses], expected)


def test_N25_gradients_that_add_up_are_those_of_eager(device: str, mode: str) -> None:
    weight, inputs, loss = training(device)
    run = compiled(loss, mode)
    for function in (run, loss):
        weight.grad = None
        for x in inputs:
            function(x).backward()
        total = weight.grad
        if function is run:
            first = total
    torch.testing.assert_close(first, total)


class Squared(nn.Module):
    """An activation whose backward is products: air-sim's graph engine has few kernels of activations' gradients."""

    def forward(self, x: Tensor) -> Tensor:
        return x * x


@pytest.fixture
def alone() -> Iterator[None]:
    """A group of one process."""
    distributed: Any = torch.distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("schedule", ["ScheduleGPipe", "Schedule1F1B"])
def test_N25_a_pipeline_of_microbatches_equals_the_whole_batch(
    schedule: str, device: str, mode: str, alone: None
) -> None:
    from torch.distributed import pipelining

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), Squared(), nn.Linear(16, 4)).to(device)
    batch, target = torch.randn(8, 8, device=device), torch.randn(8, 4, device=device)
    loss_of = nn.MSELoss()
    loss_of(model(batch), target).backward()
    expected = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    run: Any = compiled(model, mode)
    for _ in range(4):
        model.zero_grad()
        stage = pipelining.PipelineStage(run, 0, 1, torch.device(device))
        output = getattr(pipelining, schedule)(stage, 2, loss_fn=loss_of).step(batch, target=target)
        torch.testing.assert_close(output, model(batch), rtol=1e-4, atol=1e-4)
        found = [p.grad for p in model.parameters() if p.grad is not None]
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_N25_a_pipeline_without_training_equals_the_whole_batch(device: str, mode: str, alone: None) -> None:
    from torch.distributed import pipelining

    model = nn.Sequential(nn.Linear(8, 16), Squared(), nn.Linear(16, 4)).to(device)
    run: Any = compiled(model, mode)
    with torch.no_grad():
        for microbatches in (2, 4, 2, 8):
            stage = pipelining.PipelineStage(run, 0, 1, torch.device(device))
            batch = torch.randn(8, 8, device=device)
            output = pipelining.ScheduleGPipe(stage, microbatches).step(batch)
            torch.testing.assert_close(output, model(batch), rtol=1e-4, atol=1e-4)


def test_N25_what_is_detached_needs_no_gradient_beside_a_view_of_the_same_memory(
    device: str, mode: str
) -> None:
    w = torch.ones(4, 2, 2, device=device).requires_grad_()

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        product = w @ (w.mT * x)
        return product.detach(), product[1:]

    detached, part = compiled(function, mode)(torch.ones(2, device=device))
    assert (detached.requires_grad, detached._is_view()) == (False, False)
    assert part.requires_grad
    assert detached.untyped_storage().data_ptr() == part.untyped_storage().data_ptr()


@pytest.mark.parametrize("function", [torch.exp, torch.relu, torch.sigmoid, lambda x: torch.softmax(x, 0)])
def test_N25_a_result_that_is_written_before_its_backward_is_refused_as_in_eager(
    function: Callable[..., Any], device: str, mode: str
) -> None:
    run = compiled(function, mode)
    for _ in range(8):
        x = torch.zeros(3, device=device, requires_grad=True)
        y = run(x)
        loss = y.sum()
        with torch.no_grad():
            y.mul_(-2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
        del x, y, loss


def test_N25_a_view_among_results_tells_autograd_of_writes(device: str, mode: str) -> None:
    def with_row(x: Tensor) -> tuple[Tensor, Tensor]:
        doubled = x * 2
        return doubled, doubled[0]

    run = compiled(with_row, mode)
    for _ in range(8):
        with torch.no_grad():
            whole, row = run(torch.ones(2, 2, device=device))
        whole.requires_grad_()
        loss = (whole * whole).sum()
        with torch.no_grad():
            row.zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
        del whole, row, loss
