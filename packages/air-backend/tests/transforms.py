"""Random compositions of `torch.func` over a random chain of layers: functions that ask for their own derivatives.

Every layer takes a vector and a matrix and gives a vector, and so does what a transform makes of one: they compose.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import torch
from torch import Tensor, func
from torch.nn import functional

SIZE: Final = 4
Layer = Callable[[Tensor, Tensor], Tensor]


class Cube(torch.autograd.Function):
    """A function of the user's with a gradient of its own."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.as_tensor(gradients[0] * 3 * x**2)


def cube(x: Tensor, w: Tensor) -> Tensor:
    apply: Any = Cube.apply
    return torch.as_tensor(apply(x) * 0.1)


def written(x: Tensor, w: Tensor) -> Tensor:
    y = x.clone()
    y.mul_(2).sin_()
    y[0] = y[1] * 2
    return y


def shifted(x: Tensor, w: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[1:] += x[:-1]
    y.copy_(y * w[0].sum() + x)
    return y


def attended(x: Tensor, w: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(w[None] * x, w[None], w[None])[0, 0]


def solved(x: Tensor, w: Tensor) -> Tensor:
    return torch.as_tensor(torch.linalg.solve(w + SIZE * torch.eye(SIZE, dtype=x.dtype, device=x.device), x))


def convolved(x: Tensor, w: Tensor) -> Tensor:
    return functional.conv1d(x[None, None], w[:1, None, :3], padding=1)[0, 0]


def normalised(x: Tensor, w: Tensor) -> Tensor:
    rows = torch.stack([x, w[0]])
    return functional.batch_norm(rows, None, None, training=True, eps=0.1)[0]


def looked_up(x: Tensor, w: Tensor) -> Tensor:
    return functional.embedding(torch.tensor([1, 3], device=x.device), w).sum(0) + x


def judged(x: Tensor, w: Tensor) -> Tensor:
    return x + functional.cross_entropy(x[None], torch.tensor([1], device=x.device))


def softmax(x: Tensor, w: Tensor) -> Tensor:
    return x.softmax(-1)


LAYERS: Final[tuple[Layer, ...]] = (
    cube, written, shifted, attended, solved, convolved, normalised, looked_up, judged,
    lambda x, w: (x * w[0]).tanh(),
    lambda x, w: x.square() * 0.3,
    lambda x, w: functional.relu(x + w[1]),
    lambda x, w: functional.gelu(x),
    lambda x, w: w @ x,
    lambda x, w: functional.linear(x, w, w[0]),
    softmax,
    lambda x, w: x - x.logsumexp(0),
    lambda x, w: x.cumsum(-1),
    lambda x, w: x.sort(-1).values,
    lambda x, w: x.flip(-1),
    lambda x, w: x[torch.tensor([2, 0, 1, 1], device=x.device)],
    lambda x, w: x.gather(0, torch.arange(SIZE - 1, -1, -1, device=x.device)),
    lambda x, w: torch.zeros_like(x).scatter_add(0, torch.tensor([1, 1, 0, 3], device=x.device), x),
    lambda x, w: torch.cat([x[2:], x[:2] * 2]),
    lambda x, w: torch.outer(x, x).sum(0) * 0.2,
    lambda x, w: torch.where(x > 0, x, x * 0.1),
    lambda x, w: x / (x.norm() + 1),
    lambda x, w: x / (x.std() + 1),
    lambda x, w: functional.layer_norm(x, (SIZE,), w[0], w[1], 0.1),
    lambda x, w: functional.group_norm(x[None], 2, None, None, 0.1)[0],
    lambda x, w: torch.einsum("i,ij,kj->k", x, w, w) * 0.3,
    lambda x, w: torch.bmm(w[None], x[None, :, None])[0, :, 0],
    lambda x, w: torch.addmv(x, w, x),
    lambda x, w: x - x.max(),
    lambda x, w: x.topk(2).values.repeat(2),
    lambda x, w: (x.abs() + 0.1).pow(1.5),
    lambda x, w: x * functional.mse_loss(x, w[2]),
    lambda x, w: functional.pad(x[1:-1], (1, 1)),
    lambda x, w: x.clamp(-0.5, 0.7),
    lambda x, w: x * x.detach(),
)  # fmt: skip


def total(layer: Layer) -> Layer:
    """One number of a vector, in which no element counts as another."""

    def weighed(x: Tensor, w: Tensor) -> Tensor:
        return (layer(x, w) * torch.linspace(0.5, 1.5, SIZE, dtype=x.dtype, device=x.device)).sum()

    return weighed


def folded(values: Any) -> Tensor:
    """A vector of what has some."""
    return torch.as_tensor(values).reshape(-1, SIZE).sum(0)


def slope(layer: Layer) -> Layer:
    return lambda x, w: torch.as_tensor(func.grad(total(layer))(x, w))


def slope_of_weights(layer: Layer) -> Layer:
    return lambda x, w: folded(func.grad(total(layer), argnums=1)(x, w))


def slope_and_value(layer: Layer) -> Layer:
    def both(x: Tensor, w: Tensor) -> Tensor:
        gradient, value = func.grad_and_value(total(layer))(x, w)
        return torch.as_tensor(gradient + value)

    return both


def slope_with_more(layer: Layer) -> Layer:
    def both(x: Tensor, w: Tensor) -> Tensor:
        gradient, more = func.grad(lambda x, w: (total(layer)(x, w), layer(x, w)), has_aux=True)(x, w)
        return torch.as_tensor(gradient + more)

    return both


def rows(layer: Layer) -> Layer:
    return lambda x, w: folded(func.jacrev(layer)(x, w))


def rows_in_chunks(layer: Layer) -> Layer:
    return lambda x, w: folded(func.jacrev(layer, argnums=1, chunk_size=2)(x, w))


def columns(layer: Layer) -> Layer:
    return lambda x, w: folded(func.jacfwd(layer)(x, w))


def curvature(layer: Layer) -> Layer:
    return lambda x, w: folded(func.hessian(total(layer))(x, w))


def curvature_along(layer: Layer) -> Layer:
    def product(x: Tensor, w: Tensor) -> Tensor:
        def at(x: Tensor) -> Tensor:
            return total(layer)(x, w)

        pair: Any = func.jvp(func.grad(at), (x,), (x.cos(),))
        return torch.as_tensor(pair[1])

    return product


def batched(layer: Layer) -> Layer:
    return lambda x, w: func.vmap(layer, in_dims=(0, None))(torch.stack([x, x * 0.5 + 0.1, -x]), w).sum(0)


def batched_weights(layer: Layer) -> Layer:
    return lambda x, w: func.vmap(layer, in_dims=(None, 2))(x, torch.stack([w, w * 0.5], 2)).sum(0)


def batched_in_chunks(layer: Layer) -> Layer:
    run = func.vmap(layer, in_dims=(1, None), out_dims=1, chunk_size=2)
    return lambda x, w: run(torch.stack([x, x * 0.5, -x], 1), w).sum(1)


def slopes_of_samples(layer: Layer) -> Layer:
    run = func.vmap(func.grad(total(layer), argnums=1), in_dims=(0, None))
    return lambda x, w: folded(run(torch.stack([x, x * 0.5 + 0.1]), w).square())


def along(layer: Layer) -> Layer:
    def both(x: Tensor, w: Tensor) -> Tensor:
        pair: Any = func.jvp(layer, (x, w), (x.cos(), w * 0.5))
        return torch.as_tensor(pair[0] + pair[1])

    return both


def back(layer: Layer) -> Layer:
    def both(x: Tensor, w: Tensor) -> Tensor:
        pair: Any = func.vjp(layer, x, w)
        first, second = pair[1](pair[0].sin())
        return torch.as_tensor(first + folded(second) + pair[0])

    return both


def asked_inside(layer: Layer) -> Layer:
    def gradient(x: Tensor, w: Tensor) -> Tensor:
        w = w * 1
        return folded(torch.autograd.grad(total(layer)(x, w), w, create_graph=True)[0])

    return gradient


TRANSFORMS: Final = (
    slope, slope_of_weights, slope_and_value, slope_with_more, rows, rows_in_chunks, columns, curvature,
    curvature_along, batched, batched_weights, batched_in_chunks, slopes_of_samples, along, back, asked_inside,
)  # fmt: skip


@dataclass(frozen=True)
class Composition:
    """Layers one after the other, and the transforms of them, innermost first."""

    seed: int
    layers: tuple[int, ...]
    transforms: tuple[Callable[[Layer], Layer], ...]
    dynamic: bool | None
    trains: tuple[bool, bool]
    """Whether a gradient of the vector and of the matrix is asked for from outside."""

    @staticmethod
    def drawn(seed: int) -> Composition:
        chance = random.Random(seed)
        layers = tuple(chance.choices(range(len(LAYERS)), k=chance.randint(1, 4)))
        transforms = tuple(chance.choices(TRANSFORMS, k=chance.randint(1, 3)))
        trains = chance.random() < 0.6, chance.random() < 0.6
        return Composition(seed, layers, transforms, chance.choice((None, True, False)), trains)

    @property
    def function(self) -> Layer:
        chosen = [LAYERS[number] for number in self.layers]

        def chain(x: Tensor, w: Tensor) -> Tensor:
            return reduce(lambda value, layer: layer(value, w), chosen, x)

        made: Layer = chain
        for transform in self.transforms:
            made = transform(made)
        return made

    def __str__(self) -> str:
        names = ", ".join(transform.__name__ for transform in self.transforms)
        return f"{self.seed}: layers {self.layers}, {names}, dynamic {self.dynamic}, trains {self.trains}"

    def played(self, run: Layer, device: str, calls: int = 3) -> list[Tensor | None]:
        """What several calls give, and the gradients that are asked of them from outside."""
        chance = torch.Generator().manual_seed(self.seed)
        seen: list[Tensor | None] = []
        for _ in range(calls):
            x, w = (torch.randn(size, generator=chance).to(device) for size in ((SIZE,), (SIZE, SIZE)))
            given = [
                one.requires_grad_(wanted) for one, wanted in zip((x, w * 0.5), self.trains, strict=True)
            ]
            result = run(*given)
            wanted = [one for one in given if one.requires_grad]
            seen.append(result.detach())
            if wanted and result.requires_grad:
                seen += torch.autograd.grad(total(lambda x, w: x)(result, w), wanted, allow_unused=True)
        return seen
