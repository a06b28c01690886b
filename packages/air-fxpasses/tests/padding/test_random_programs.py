"""Random programs that mix rows and programs that do not: what is proven is judged by running it at two sizes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from air_fxpasses.padding import Proof, prove
from padded_runs import accepts, check, symbols_of

ROWS = 5
Step = Callable[[random.Random, list[Tensor]], Tensor]


def dim_of(chance: random.Random, x: Tensor) -> int:
    return chance.randrange(x.dim())


def partner(chance: random.Random, pool: list[Tensor], x: Tensor) -> Tensor:
    """A tensor of the same size, or the tensor itself."""
    return chance.choice([y for y in pool if y.shape == x.shape])


def any_of(chance: random.Random, pool: list[Tensor]) -> Tensor:
    return chance.choice(pool[-4:]) if chance.random() < 0.7 else chance.choice(pool)


def flattened(chance: random.Random, x: Tensor) -> Tensor:
    if x.dim() < 2:
        return x[..., None]
    first = chance.randrange(x.dim() - 1)
    return torch.flatten(x, first, first + 1)


def split(chance: random.Random, x: Tensor) -> Tensor:
    dim = dim_of(chance, x)
    factor = chance.choice([2, 3])
    if not isinstance(x.shape[dim], int) or x.shape[dim] % factor:
        factor = 1
    return torch.unflatten(x, dim, (factor, -1))


def blocks(chance: random.Random, x: Tensor, rows: Any) -> Tensor:
    """As many as the rows, of a dimension as long as some of them together."""
    sizes: list[Any] = list(x.shape)
    long = [dim for dim, size in enumerate(sizes) if not isinstance(size, int)]
    if not long:
        return x / 2
    first = chance.choice([0, 0, rows])
    return x.movedim(chance.choice(long), 0)[first : first + rows]


def product(chance: random.Random, pool: list[Tensor], x: Tensor) -> Tensor:
    if x.dim() < 2:
        return x * 2
    fitting = [y for y in pool if y.dim() == 2 and y.shape[0] == x.shape[-1]]
    return x @ chance.choice(fitting) if fitting else x.transpose(-1, -2)


def part(chance: random.Random, x: Tensor, rows: Any) -> Tensor:
    dim = dim_of(chance, x)
    bounds = [(0, 2), (1, None), (0, rows), (None, -1), (-2, None), (rows - 2, None), (0, rows - 1)]
    start, end = chance.choice(bounds)
    return x[(slice(None),) * dim + (slice(start, end),)]


def picked(chance: random.Random, x: Tensor, ids: Tensor) -> Tensor:
    by_place = torch.arange(x.shape[0])
    numbers = chance.choice([by_place, by_place.flip(0), ids % 2, torch.tensor([1, 0])])
    return x[numbers] if chance.random() < 0.5 or x.dim() < 2 else x[numbers, 0]


def written(chance: random.Random, pool: list[Tensor], x: Tensor, ids: Tensor) -> Tensor:
    table = torch.zeros(8, *x.shape[1:])
    numbers = chance.choice([ids, torch.arange(x.shape[0]), ids.cumsum(0) % 8])
    return torch.index_put(table, (numbers,), x, accumulate=chance.random() < 0.3)


def masked(chance: random.Random, x: Tensor) -> Tensor:
    dim = dim_of(chance, x)
    places = torch.arange(x.shape[dim]).view([-1 if d == dim else 1 for d in range(x.dim())])
    return torch.where(places < 2, x, chance.choice([x * 2, torch.zeros_like(x), x.flip(dim)]))


def step(chance: random.Random, pool: list[Tensor], ids: Tensor, rows: Any) -> Tensor:
    """One more value made of what there is."""
    x = any_of(chance, pool)
    if x.dim() == 0:
        return x + pool[0]
    makers: list[Callable[[], Tensor]] = [
        lambda: chance.choice([torch.relu, torch.neg, torch.sin])(x),
        lambda: x + partner(chance, pool, x),
        lambda: x * partner(chance, pool, x),
        lambda: x.sum(dim_of(chance, x), keepdim=chance.random() < 0.5),
        lambda: x.amax(dim_of(chance, x), keepdim=chance.random() < 0.5),
        lambda: x.softmax(dim_of(chance, x)),
        lambda: x.cumsum(dim_of(chance, x)),
        lambda: x.flip(dim_of(chance, x)),
        lambda: x.sort(dim_of(chance, x))[0],
        lambda: x.transpose(dim_of(chance, x), dim_of(chance, x)),
        lambda: x.unsqueeze(dim_of(chance, x)),
        lambda: flattened(chance, x),
        lambda: split(chance, x),
        lambda: torch.cat([x, partner(chance, pool, x)], dim_of(chance, x)),
        lambda: chance.choice(x.split(chance.choice([rows, 2, 2 * rows]), dim_of(chance, x))),
        lambda: blocks(chance, x, rows),
        lambda: x.select(dim_of(chance, x), chance.choice([0, 1, -1])) if min(x.shape) > 1 else x,
        lambda: part(chance, x, rows),
        lambda: product(chance, pool, x),
        lambda: picked(chance, x, ids) if x.shape[0] == rows else x * 3,
        lambda: written(chance, pool, x, ids) if x.shape[0] == rows else x - 1,
        lambda: masked(chance, x),
        lambda: x.tril() if x.dim() > 1 else x,
        lambda: x * rows if chance.random() < 0.2 else x * 2,
        lambda: x[:1].expand(chance.choice([rows, 3]), *x.shape[1:]),
        lambda: torch.stack([x, partner(chance, pool, x)], dim_of(chance, x)),
        lambda: x.roll(1, dim_of(chance, x)),
        lambda: x.repeat(*[chance.choice([1, 1, 2]) for _ in range(x.dim())]),
    ]
    return chance.choice(makers)()


def program(seed: int, length: int) -> Callable[..., tuple[Tensor, ...]]:
    def run(x: Tensor, y: Tensor, z: Tensor, table: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
        chance = random.Random(seed)
        pool = [x, y, z, table]
        for _ in range(length):
            made = step(chance, pool, ids, x.shape[0])
            if made.dim() <= 4 and made.numel() < 3000:
                pool.append(made)
        return tuple(pool[-2:])

    return run


def inputs() -> list[Tensor]:
    torch.manual_seed(0)
    shapes = ((ROWS, 4), (ROWS, 4), (ROWS, 3, 4), (4, 4))
    return [*(torch.rand(shape) for shape in shapes), torch.tensor([3, 0, 6, 1, 7])]


def traced_by_rows(function: Callable[..., Any], given: list[Tensor]) -> GraphModule:
    """The graph of a function, with one symbol, for the number of rows."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    fakes = []
    for place, tensor in enumerate(given):
        dynamic = [DimDynamic.DUCK if size == ROWS else DimDynamic.STATIC for size in tensor.shape]
        context: Any = StatelessSymbolicContext(dynamic_sizes=dynamic)
        source = ConstantSource(f"input{place}")
        fakes.append(mode.from_tensor(tensor, symbolic_context=context, source=source))
    with mode:
        return make_fx(function, tracing_mode="real")(*fakes)


def judged(seeds: range) -> Counter[str]:
    found: Counter[str] = Counter()
    given = inputs()
    for seed in seeds:
        length = 1 + seed % 5
        try:
            gm = traced_by_rows(program(seed, length), given)
        except Exception:  # an impossible program, or one that torch holds to one size
            found["impossible"] += 1
            continue
        values = symbols_of(gm)
        if not values:
            found["impossible"] += 1
            continue
        (symbol,) = values
        proof = prove(gm, symbol)
        if not isinstance(proof, Proof):
            found[proof.reason] += 1
        elif accepts(gm, {symbol: ROWS + 3}):
            try:
                found["proven"] += 1
                found["padded results"] += check(gm, proof, given)
            except AssertionError as wrong:
                raise AssertionError(f"seed {seed}:\n{gm.code}\n{wrong}") from wrong
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shard", range(4))
def test_N11_what_is_proven_of_random_programs_is_true(shard: int) -> None:
    found = judged(range(shard * 75, shard * 75 + 75))
    assert found["proven"] > 30
    assert found["padded results"] > 20
    assert len(found) > 8, "programs are refused for many reasons"


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(8))
def test_N11_what_is_proven_of_very_many_random_programs_is_true(shard: int) -> None:
    assert judged(range(1000 + shard * 2500, 1000 + shard * 2500 + 2500))["proven"] > 500
