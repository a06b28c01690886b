"""What a forward half saves for its backward half: nobody copies it, and whoever has it for longer loses nothing.

Training loops as people write them, against eager: losses, gradients and what was kept of earlier calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch._dynamo.utils import counters

import air_aclgraph

Model = Callable[[Tensor], Tensor]
Loop = Callable[[nn.Module, Model, str], list[Any]]


class Residual(nn.Module):
    """Saves activations, views of them, two that share memory, and views of its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(torch.nn.functional.gelu(self.first(x)))
        scores = (y @ y.t()).softmax(-1)
        result: Tensor = torch.tanh(self.second(scores @ y + x)) * y
        return result


def module(device: str) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Residual(), Residual(), nn.Linear(16, 4)).to(device)


def batch(number: int, device: str, rows: int = 8) -> Tensor:
    generator = torch.Generator().manual_seed(number)
    return torch.randn(rows, 16, generator=generator).to(device)


def gradients(model: nn.Module) -> list[Tensor | None]:
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def step_by_step(model: nn.Module, run: Model, device: str) -> list[Any]:
    kept: list[Any] = []
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for number in range(10):
        loss = run(batch(number, device)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        kept.append(loss)
    return kept


def results_are_kept(model: nn.Module, run: Model, device: str) -> list[Any]:
    kept: list[Any] = []
    for number in range(8):
        y = run(batch(number, device))
        y.sum().backward()
        kept.append(y.detach())
    return kept + gradients(model)


def two_forwards_and_one_backward(model: nn.Module, run: Model, device: str) -> list[Any]:
    kept: list[Any] = []
    for number in range(6):
        loss = (run(batch(number, device)) - run(batch(number + 50, device))).square().mean()
        loss.backward()
        kept += [loss, *gradients(model)]
    return kept


def all_forwards_first(model: nn.Module, run: Model, device: str) -> list[Any]:
    losses = [run(batch(number, device)).square().mean() for number in range(6)]
    for loss in reversed(losses):
        loss.backward()
    return losses + gradients(model)


def backward_twice(model: nn.Module, run: Model, device: str) -> list[Any]:
    kept: list[Any] = []
    for number in range(6):
        loss = run(batch(number, device)).square().mean()
        loss.backward(retain_graph=True)
        other = run(batch(number + 50, device)).square().mean()
        other.backward()
        loss.backward()
        kept += [loss, other, *gradients(model)]
    return kept


def forwards_without_backward(model: nn.Module, run: Model, device: str) -> list[Any]:
    kept: list[Any] = [run(batch(number, device)) for number in range(5)]
    kept[1].sum().backward()
    return kept + gradients(model)


def shapes_in_turn(model: nn.Module, run: Model, device: str) -> list[Any]:
    kept: list[Any] = []
    for number in range(16):
        loss = run(batch(number, device, (8, 6, 8, 4)[number % 4])).square().mean()
        loss.backward()
        kept += [loss, *gradients(model)]
    return kept


def evaluated_in_between(model: nn.Module, run: Model, device: str) -> list[Any]:
    kept: list[Any] = []
    for number in range(6):
        loss = run(batch(number, device)).square().mean()
        with torch.no_grad():
            kept.append(run(batch(number + 50, device)))
        loss.backward()
        kept += [loss, *gradients(model)]
    return kept


def saved_values_are_packed(model: nn.Module, run: Model, device: str) -> list[Any]:
    packed: list[Tensor] = []

    def pack(value: Tensor) -> int:
        packed.append(value)
        return len(packed) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda at: packed[at]):
        return step_by_step(model, run, device)


def parameters_in_other_memory(model: nn.Module, run: Model, device: str) -> list[Any]:
    kept: list[Any] = []
    for number in range(9):
        loss = run(batch(number, device)).square().mean()
        loss.backward()
        kept += [loss, *gradients(model)]
        if number % 3 == 2:
            for parameter in model.parameters():
                parameter.data = parameter.data * 0.9
    return kept


LOOPS: tuple[Loop, ...] = (
    step_by_step,
    results_are_kept,
    two_forwards_and_one_backward,
    all_forwards_first,
    backward_twice,
    forwards_without_backward,
    shapes_in_turn,
    evaluated_in_between,
    saved_values_are_packed,
    parameters_in_other_memory,
)


def compiled(model: nn.Module, **options: Any) -> Any:
    return torch.compile(model, backend="air", options={"mode": "reduce-overhead", **options}, dynamic=False)


def bytes_of_a_step(rows: int) -> int:
    """Those of the batch, for both halves, and of the gradient of the result."""
    return rows * (16 + 16 + 4) * 4


@pytest.fixture
def counted() -> Iterator[Any]:
    counters.clear()
    yield counters["air"]
    counters.clear()


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_N25_a_training_loop_gives_what_eager_gives(loop: Loop, device: str) -> None:
    model, eager = module(device), module(device)
    torch.testing.assert_close(loop(model, compiled(model), device), loop(eager, eager, device))


@pytest.fixture
def twice() -> Iterator[Callable[[Tensor], Tensor]]:
    """An operator that runs eagerly between pieces, in the backward half too."""
    with torch.library._scoped_library("apart", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        torch.library.register_fake("apart::twice", torch.empty_like, lib=library)
        call = torch.ops.apart.twice
        torch.library.register_autograd("apart::twice", lambda _, grad: call(grad), lib=library)
        air_aclgraph.register_uncapturable("apart::twice")
        yield call
        air_aclgraph.unregister_uncapturable("apart::twice")


@pytest.mark.filterwarnings("ignore")
def test_a_graph_in_pieces_lends_from_piece_to_piece_and_to_the_backward(
    twice: Callable[[Tensor], Tensor], device: str, counted: Any
) -> None:
    def step(x: Tensor) -> Tensor:
        y = twice(x.sin().exp())
        return twice(y.cos() * y).tanh()

    run = torch.compile(step, backend="air", options={"mode": "reduce-overhead"})
    kept: list[tuple[Tensor, Tensor]] = []
    for number in range(8):
        x, same = (batch(number, device).requires_grad_() for _ in range(2))
        found, wanted = run(x), step(same)
        found.sum().backward()
        wanted.sum().backward()
        kept.append((found.detach(), wanted.detach()))
        torch.testing.assert_close(x.grad, same.grad)
    torch.testing.assert_close(*map(list, zip(*kept, strict=True)))
    assert "recaptures" not in counted


@pytest.mark.filterwarnings("ignore")
def test_what_is_on_the_host_outside_of_captures_alone_crosses_a_cut(
    twice: Callable[[Tensor], Tensor], device: str
) -> None:
    """The seeds of attention on an NPU."""

    def attended(x: Tensor) -> Tensor:
        y = torch.nn.functional.scaled_dot_product_attention(x, x, x)
        return twice(y).sin() * y

    def step(x: Tensor) -> Tensor:
        result: Tensor = torch.utils.checkpoint.checkpoint(attended, x, use_reentrant=False)
        return result

    run = torch.compile(step, backend="air", options={"mode": "reduce-overhead"})
    for number in range(4):
        x, same = (batch(number, device).view(1, 4, 8, 4).requires_grad_() for _ in range(2))
        run(x).sum().backward()
        step(same).sum().backward()
        torch.testing.assert_close(x.grad, same.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("outputs", ["clone", "view", "guarded"])
@pytest.mark.filterwarnings("ignore")
def test_what_autograd_keeps_is_not_overwritten_whatever_outputs_are_asked_for(
    outputs: str, device: str
) -> None:
    model, eager = module(device), module(device)
    found = two_forwards_and_one_backward(model, compiled(model, **{"air.outputs": outputs}), device)
    torch.testing.assert_close(found, two_forwards_and_one_backward(eager, eager, device))


def test_nothing_is_copied_but_the_batch_and_its_gradient(device: str, counted: Any) -> None:
    model = module(device)
    step_by_step(model, compiled(model), device)
    assert counted["captures"] == 2
    assert counted["copied_bytes"] == 9 * bytes_of_a_step(8)


def test_what_is_kept_costs_one_capture_of_each_half_and_is_copied_from_then_on(
    device: str, counted: Any
) -> None:
    model = module(device)
    all_forwards_first(model, compiled(model), device)
    assert counted["recaptures: lent output kept"] == 1
    assert counted["captures"] == 3


def test_a_second_shape_has_no_memory_of_its_own_to_lend(device: str, counted: Any) -> None:
    model = module(device)
    run = torch.compile(model, backend="air", options={"mode": "reduce-overhead"}, dynamic=True)
    copied = {}
    for rows in (8, 6, 8, 6):
        before = counted["copied_bytes"]
        run(batch(0, device, rows)).sum().backward()
        copied[rows] = counted["copied_bytes"] - before
    assert copied[8] == bytes_of_a_step(8)
    assert copied[6] > 4 * bytes_of_a_step(6)


def test_nothing_is_lent_where_hooks_take_what_is_saved(device: str, counted: Any) -> None:
    model = module(device)
    run = compiled(model)
    with torch.autograd.graph.save_on_cpu():
        for number in range(3):
            run(batch(number, device)).sum().backward()
    assert "recaptures" not in counted
    assert counted["copied_bytes"] > 3 * 2 * bytes_of_a_step(8)


def test_modules_that_share_a_graph_each_lend(device: str, counted: Any) -> None:
    layers = [Residual().to(device) for _ in range(3)]
    for layer in layers:
        layer.compile(backend="air", options={"mode": "reduce-overhead"}, dynamic=False)
    for number in range(6):
        x = batch(number, device)
        for layer in layers:
            x = layer(x)
        x.sum().backward()
    assert counted["captures"] == 6
    assert counted["recaptures"] == 0
