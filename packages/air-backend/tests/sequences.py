"""What programs do between calls of a compiled function: they load, swap and freeze weights, train, copy, fail, go on.

Each sequence takes what compiles a function and a device, and gives all that its caller sees; eager is the judge.
"""

from __future__ import annotations

import copy
import gc
import itertools
from collections import namedtuple
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

Compile = Callable[[Any], Any]
Sequence = Callable[[Compile, str], list[Any]]

SEQUENCES: Final[dict[str, Sequence]] = {}


def sequence(function: Sequence) -> Sequence:
    SEQUENCES[function.__name__] = function
    return function


def numbers(device: str, *sizes: int, seed: int = 0) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).to(device)


class Model(nn.Module):
    """A layer, a norm with statistics, and a buffer that every call writes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer = nn.BatchNorm1d(4), nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4))
        with torch.no_grad():
            for seed, parameter in enumerate(self.parameters()):
                parameter.copy_(numbers("cpu", *parameter.shape, seed=seed))

    seen: Tensor

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(x.detach().mean(0))
        return F.silu(self.layer(self.norm(x))) + self.seen


@sequence
def loaded_weights(compiled: Compile, device: str) -> list[Any]:
    model = Model().to(device)
    step = compiled(model)
    results = [step(numbers(device, 3, 4))]
    state = {
        name: value * 0.5 if value.is_floating_point() else value
        for name, value in model.state_dict().items()
    }
    for assign in (False, True):
        model.load_state_dict(state, assign=assign)
        results.append(step(numbers(device, 3, 4, seed=1)))
    return results


@sequence
def swapped_weights(compiled: Compile, device: str) -> list[Any]:
    model = Model().to(device)
    step = compiled(model)
    results = [step(numbers(device, 3, 4))]
    model.layer.weight.data = numbers(device, 4, 4, seed=5)
    results += [step(numbers(device, 3, 4)) for _ in range(2)]
    model.layer.weight = nn.Parameter(numbers(device, 4, 4, seed=6))
    return [*results, step(numbers(device, 3, 4))]


@sequence
def another_buffer(compiled: Compile, device: str) -> list[Any]:
    model = Model().to(device).eval()
    step = compiled(model)
    results = [step(numbers(device, 3, 4))]
    for seed in (9, 10):
        model.seen = numbers(device, 4, seed=seed)
        results.append(step(numbers(device, 3, 4)))
    return [*results, model.seen]


@sequence
def frozen_and_thawed(compiled: Compile, device: str) -> list[Any]:
    model = Model().to(device)
    step, results = compiled(model), []
    for seed in range(4):
        model.layer.requires_grad_(seed % 2 == 0)
        x = numbers(device, 3, 4, seed=seed).requires_grad_()
        y = step(x)
        y.sum().backward()
        given = model.layer.weight.grad
        results += [y, x.grad, None if given is None else given.clone()]
    return results


@sequence
def trained_and_evaluated_in_turn(compiled: Compile, device: str) -> list[Any]:
    model = Model().to(device)
    step, results = compiled(model), []
    for seed in range(4):
        model.train(seed % 2 == 0)
        results.append(step(numbers(device, 5, 4, seed=seed)))
    return results


@sequence
def an_optimizer(compiled: Compile, device: str) -> list[Any]:
    model = Model().to(device)
    step, results = compiled(model), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for seed in range(5):
        optimizer.zero_grad(set_to_none=seed % 2 == 0)
        loss = step(numbers(device, 5, 4, seed=seed)).square().mean()
        loss.backward()
        optimizer.step()
        results.append(loss.detach().clone())
    return results + [parameter.detach().clone() for parameter in model.parameters()]


@sequence
def gradients_that_add_up(compiled: Compile, device: str) -> list[Any]:
    model = Model().to(device)
    step = compiled(model)
    for seed in range(4):
        step(numbers(device, 5, 4, seed=seed)).square().mean().backward()
    return [parameter.grad for parameter in model.parameters()]


@sequence
def backward_twice(compiled: Compile, device: str) -> list[Any]:
    weight = numbers(device, 4, 4).requires_grad_()
    loss = compiled(lambda x: (x @ weight).sin().sum())(numbers(device, 3, 4))
    loss.backward(retain_graph=True)
    assert weight.grad is not None
    first = weight.grad.clone()
    loss.backward()
    return [first, weight.grad]


@sequence
def two_forwards_then_two_backwards(compiled: Compile, device: str) -> list[Any]:
    weight = numbers(device, 4, 4).requires_grad_()
    step = compiled(lambda x: (x @ weight).sin())
    one, other = step(numbers(device, 3, 4)), step(numbers(device, 3, 4, seed=1))
    one.sum().backward()
    assert weight.grad is not None
    first = weight.grad.clone()
    other.sum().backward()
    return [first, weight.grad, one, other]


@sequence
def an_autograd_function(compiled: Compile, device: str) -> list[Any]:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            x: Tensor = ctx.saved_tensors[0]
            return grad * x

    x = numbers(device, 3).requires_grad_()
    y = compiled(lambda x: Doubled.apply(x) + 1)(x)  # type: ignore[no-untyped-call]  # torch's has no types
    y.sum().backward()
    return [y, x.grad]


@sequence
def gradients_of_functions(compiled: Compile, device: str) -> list[Any]:
    cubed = compiled(lambda x: torch.func.grad(lambda y: (y**3).sum())(x))
    rows = compiled(lambda x: torch.func.vmap(lambda row: row.sin().sum())(x))
    return [cubed(numbers(device, 4)), rows(numbers(device, 3, 4))]


@sequence
def grad_modes_in_turn(compiled: Compile, device: str) -> list[Any]:
    step = compiled(lambda x: x * 2 + 1)
    x = numbers(device, 3).requires_grad_()
    results = [step(x)]
    with torch.no_grad():
        results.append(step(x))
    with torch.inference_mode():
        made = numbers(device, 3)
        results += [step(x), step(made)]
    results += [step(made), step(x)]
    return [result.detach().clone() for result in results] + [result.requires_grad for result in results]


@sequence
def a_tensor_of_inference_mode_is_written(compiled: Compile, device: str) -> list[Any]:
    step = compiled(lambda x: x.add_(1) * 2)
    with torch.inference_mode():
        x = numbers(device, 3)
        return [step(x).sum().item(), step(x).sum().item(), x.sum().item()]


@sequence
def autocast_on_and_off(compiled: Compile, device: str) -> list[Any]:
    weight, results = numbers(device, 4, 4), []
    step = compiled(lambda x: x @ weight)
    for enabled in (True, False, True):
        with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=enabled):
            results.append(step(numbers(device, 3, 4)))
    return results + [result.dtype for result in results]


@sequence
def several_threads(compiled: Compile, device: str) -> list[Any]:
    step = compiled(lambda x: (x * 2).sin() + x)
    step(numbers(device, 4, 4))

    def run(thread: int) -> list[Tensor]:
        return [step(numbers(device, 4, 4, seed=thread * 10 + call)).clone() for call in range(10)]

    with ThreadPoolExecutor(3) as pool:
        return [result for results in pool.map(run, range(3)) for result in results]


@sequence
def a_deep_copy(compiled: Compile, device: str) -> list[Any]:
    model = Model().to(device).eval()
    step = compiled(model)
    results = [step(numbers(device, 3, 4))]
    other = copy.deepcopy(step)
    results.append(other(numbers(device, 3, 4)))
    with torch.no_grad():
        getattr(other, "_orig_mod", other).layer.weight.zero_()
    return [*results, step(numbers(device, 3, 4)), other(numbers(device, 3, 4))]


@sequence
def a_parameter_is_the_input(compiled: Compile, device: str) -> list[Any]:
    layer = Model().layer.to(device)
    step = compiled(lambda x: layer(x))
    return [step(layer.weight), step(layer.weight.t()), step(numbers(device, 4, 4))]


@sequence
def a_hook_is_taken_away(compiled: Compile, device: str) -> list[Any]:
    model = Model().to(device).eval()
    hook = model.layer.register_forward_hook(lambda module, inputs, result: result * 2)
    step = compiled(model)
    results = [step(numbers(device, 3, 4))]
    hook.remove()
    return [*results, step(numbers(device, 3, 4))]


@sequence
def an_object_with_state(compiled: Compile, device: str) -> list[Any]:
    class Counter:
        def __init__(self) -> None:
            self.calls, self.total = 0, torch.zeros(4, device=device)

        def step(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.total = self.total + x
            return self.total * self.calls

    counter = Counter()
    step = compiled(counter.step)
    return [*(step(numbers(device, 4, seed=seed)) for seed in range(4)), counter.total, counter.calls]


@sequence
def structures_and_keywords(compiled: Compile, device: str) -> list[Any]:
    Pair = namedtuple("Pair", "first second")  # what programs have

    def function(*given: Tensor, scale: float = 1.0, **more: Any) -> dict[str, Any]:
        return {"pair": Pair(given[0] * scale, more["z"]["q"][0]), "none": None, "list": [given[1], 3]}

    found = compiled(function)(
        numbers(device, 3), numbers(device, 2), scale=2.5, z={"q": [numbers(device, 1)]}
    )
    return [*found["pair"], found["none"], *found["list"], list(found), type(found["pair"]).__name__]


@sequence
def numbers_of_every_kind(compiled: Compile, device: str) -> list[Any]:
    step = compiled(lambda x, n: x * n if n else x - 1)
    return [step(numbers(device, 3), number) for number in (1, True, 0, False, 2.5, -0.5, 3, 10**6)]


@sequence
def views_of_one_tensor(compiled: Compile, device: str) -> list[Any]:
    base = numbers(device, 4, 6)
    step = compiled(lambda part: part.mul_(2).sum(0))
    return [step(base[1:3]), step(base[:2]), step(base.t()[1:3]), base]


@sequence
def layouts_in_turn(compiled: Compile, device: str) -> list[Any]:
    step = compiled(lambda x: x.contiguous().view(-1) * 2)
    wide = numbers(device, 3, 8)
    return [step(wide), step(wide.t()), step(wide[::2]), step(wide[:, ::2]), step(wide[:1].expand(3, 8))]


@sequence
def functions_that_are_dropped(compiled: Compile, device: str) -> list[Any]:
    results = []
    for factor in range(3):
        step = compiled(lambda x, factor=factor: x * (factor + 1))
        results.append(step(numbers(device, 3)))
        del step
        gc.collect()
    return results


@sequence
def compiled_inside_compiled(compiled: Compile, device: str) -> list[Any]:
    inner = compiled(lambda x: x.sin() * 2)
    outer = compiled(lambda x: inner(x) + inner(x * 2))
    return [outer(numbers(device, 3)), inner(numbers(device, 3)), outer(numbers(device, 4))]


@sequence
def random_numbers_of_one_seed(compiled: Compile, device: str) -> list[Any]:
    step = compiled(lambda x: F.dropout(x, 0.5) + torch.rand_like(x))
    x = torch.ones(1000, device=device)
    draws = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        draws += [step(x), step(x)]
    same = [torch.equal(one, other) for one, other in itertools.pairwise(draws)]
    kept = [round(float((draw >= 1).float().mean()), 1) for draw in draws]
    return [same, torch.equal(draws[0], draws[2]), kept]


@sequence
def an_argument_takes_the_result(compiled: Compile, device: str) -> list[Any]:
    into = torch.zeros(3, device=device)
    result = compiled(lambda x, out: torch.add(x, 1, out=out))(numbers(device, 3), into)
    return [result, into, result is into]
