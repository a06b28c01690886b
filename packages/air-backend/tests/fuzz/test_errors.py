"""Random programs in which a call may raise: it raises where eager does, and the calls after it are right.

`--fuzz-programs N` sets how many programs each mode runs, `--fuzz-seed S` with which one it begins.  In reduce-overhead
the host replays the very operators of eager: type and message of an error are eager's, and so is what was written by
then.  In max-autotune an engine computes, with words of its own, and writes in an order of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from against_eager import difference
from fuzz.campaigns import MODES

SHARDS = 2  # so that several workers share the programs of a mode
GOOD, BAD = 4, (9, -9)  # indices are below the first; one of the others is in a call that raises
MESSAGE = 60  # characters of the first line of a message that are compared

State = Mapping[str, Tensor]
Step = Callable[[Tensor, Tensor, State], Tensor]


class Picky(Exception):
    """What an operator of the user's raises."""


@torch.library.custom_op("air_fuzz_errors::picky", mutates_args=())
def picky(x: Tensor, i: Tensor) -> Tensor:
    if int(i.abs().max()) > GOOD:
        raise Picky(f"{int(i.abs().max())} is too large")
    return x * 2


@picky.register_fake
def _(x: Tensor, i: Tensor) -> Tensor:
    return torch.empty_like(x)


picky.register_autograd(lambda ctx, gradient: (gradient * 2, None))


def put(x: Tensor, i: Tensor, state: State) -> Tensor:
    y = x.clone()
    y[i] = 1.5
    return y


def asserted(x: Tensor, i: Tensor, state: State) -> Tensor:
    torch._assert_async((i.abs() < GOOD).all(), "an index is too large")
    return x + 1


def factored(x: Tensor, i: Tensor, state: State) -> Tensor:
    positive = (x @ x.mT + 5 * torch.eye(4)) * (6.5 - i.abs().max())
    factor: Tensor = torch.linalg.cholesky(positive)
    return factor


#: They raise for an index that is too large, or too small.
RAISING: Mapping[str, Step] = {
    "embedding": lambda x, i, state: x + F.embedding(i, state["table"]),
    "index_select": lambda x, i, state: x.index_select(0, i) + 1,
    "gather": lambda x, i, state: x.gather(0, i[:, None].expand(4, 4)),
    "index": lambda x, i, state: x[i] * 2,
    "scatter": lambda x, i, state: x.scatter(0, i[:, None].expand(4, 4), x),
    "index_put": put,
    "take": lambda x, i, state: x + torch.take(x, i * 4),
    "nll_loss": lambda x, i, state: x + F.nll_loss(x.log_softmax(-1), i),
    "cross_entropy": lambda x, i, state: x * F.cross_entropy(x, i),
    "one_hot": lambda x, i, state: x + F.one_hot(i, 4),
    "cholesky": factored,
    "inv": lambda x, i, state: x + torch.linalg.inv(torch.eye(4) * (9 - i.abs().max())),
    "division of integers": lambda x, i, state: x + (torch.full((4,), 7) // (9 - i.abs())).sum(),
    "bincount": lambda x, i, state: x + torch.bincount(i, minlength=4)[:4],
    "multinomial": lambda x, i, state: x + 0 * torch.multinomial(7.5 - i.abs().float(), 2).sum(),
    "an operator of the user's": lambda x, i, state: picky(x, i),
    "an assertion": asserted,
}


def counted(x: Tensor, i: Tensor, state: State) -> Tensor:
    state["seen"].add_(1)
    return x


def kept(x: Tensor, i: Tensor, state: State) -> Tensor:
    state["seen"][1:2].copy_(x[:1].detach())
    return x * state["seen"].sum().tanh()


PLAIN: Mapping[str, Step] = {
    "count": counted,
    "keep": kept,
    "read": lambda x, i, state: x + state["seen"],
    "relu": lambda x, i, state: x.relu() + 0.1,
    "mm": lambda x, i, state: (x @ state["weight"]).tanh(),
    "view": lambda x, i, state: x.t().contiguous().view(4, 4),
    # a row of equal numbers has no gradient
    "norm": lambda x, i, state: F.layer_norm(x + torch.arange(4), (4,)),
}


def some(steps: Mapping[str, Step], most: int, chance: random.Random) -> list[str]:
    """Names of fewer steps than `most`."""
    return [chance.choice(list(steps)) for _ in range(chance.randrange(most))]


@dataclass(frozen=True)
class Program:
    """Steps, and calls: each a seed, and the index that is wrong in it or None."""

    steps: tuple[str, ...]
    calls: tuple[tuple[int, int | None], ...]
    trains: bool

    @classmethod
    def drawn(cls, seed: int) -> Program:
        chance = random.Random(seed)
        steps = [*some(PLAIN, 4, chance), chance.choice(list(RAISING)), *some(PLAIN, 3, chance)]
        if chance.random() < 0.3:
            steps += [chance.choice(list(RAISING)), *some(PLAIN, 2, chance)]
        wrong = [
            chance.choice(BAD) if chance.random() < 0.3 else None for _ in range(chance.randrange(3, 20))
        ]
        calls = tuple((chance.randrange(10**6), one) for one in wrong)
        return cls(tuple(steps), calls, chance.random() < 0.4)

    def run(self, way: Callable[..., Any]) -> Iterator[Any]:
        """What a caller sees of each call: results, gradients and state, or the error and state."""
        torch.manual_seed(0)
        state = {"table": torch.randn(4, 4), "weight": torch.randn(4, 4), "seen": torch.zeros(4, 4)}
        for name in ("table", "weight"):
            state[name].requires_grad_(self.trains)
        steps = [{**RAISING, **PLAIN}[name] for name in self.steps]

        def program(x: Tensor, i: Tensor) -> Tensor:
            for step in steps:
                x = step(x, i, state)
            return x

        call = way(program)
        for seed, wrong in self.calls:
            yield self._seen(call, state, seed, wrong)

    def _seen(self, call: Callable[..., Any], state: State, seed: int, wrong: int | None) -> Any:
        torch.manual_seed(seed)
        x, i = torch.randn(4, 4, requires_grad=self.trains), torch.randint(0, GOOD, (4,))
        if wrong is not None:
            i[seed % 4] = wrong
        try:
            result = call(x, i)
            leaves = [x, state["weight"]] if result.requires_grad else []
            gradients = torch.autograd.grad(result.sum(), leaves, allow_unused=True) if leaves else ()
            return result.detach(), gradients, state["seen"].clone()
        except Exception as error:
            seen = error, state["seen"].clone()
            state["seen"].fill_(seed % 5)  # the next call begins alike
            return seen


def is_error(seen: Any) -> bool:
    return isinstance(seen[0], Exception)


def told(expected: Any, found: Any, *, in_eagers_words: bool) -> str:
    """How one call differs; empty where it does not."""
    if is_error(expected) != is_error(found):
        return f"{found[0]!r} where eager has {expected[0]!r}"
    if not is_error(expected):
        return difference(expected, found)
    if not in_eagers_words:
        return ""
    words = str(expected[0]).partition("\n")[0][:MESSAGE]
    if type(found[0]) is not type(expected[0]) or words not in str(found[0]):
        return f"{found[0]!r} where eager raises {expected[0]!r}"
    return difference(expected[1], found[1])


def first_difference(program: Program, expected: Sequence[Any], mode: str | None) -> tuple[int, str] | None:
    torch._dynamo.reset()
    options = {"backend": "aot_eager"} if mode is None else {"backend": "air", "options": {"mode": mode}}
    pairs = zip(expected, program.run(lambda function: torch.compile(function, **options)), strict=True)
    for at, (theirs, mine) in enumerate(pairs):
        if words := told(theirs, mine, in_eagers_words=mode != "max-autotune"):
            return at, words
    return None


def wrong_in(seed: int, mode: str) -> str | None:
    """How a program differs from eager where torch alone does not."""
    program = Program.drawn(seed)
    expected = list(program.run(lambda function: function))
    found = first_difference(program, expected, mode)
    if found is None:
        return None
    alone = first_difference(program, expected, None)
    if alone is not None and alone[0] <= found[0]:
        return None
    return f"seed {seed}, call {found[0]}: {found[1]}\n{program}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("mode", MODES)
def test_a_call_raises_where_eager_does_and_those_after_it_are_right(
    mode: str, shard: int, request: pytest.FixtureRequest
) -> None:
    first, programs = (request.config.getoption(name) for name in ("--fuzz-seed", "--fuzz-programs"))
    found = [wrong_in(seed, mode) for seed in range(first + shard, first + programs, SHARDS)]
    assert "\n".join(filter(None, found)) == ""


def test_the_judge_sees_a_call_that_raises_nothing() -> None:
    def forgiving(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, i: function(x, i.clamp(0, GOOD - 1))

    programs = [Program.drawn(seed) for seed in range(20)]
    assert any(one is not None for program in programs for _, one in program.calls)
    for program in programs:
        pairs = zip(program.run(lambda function: function), program.run(forgiving), strict=True)
        seen = [told(theirs, mine, in_eagers_words=False) for theirs, mine in pairs]
        # eager raises in each call that has a wrong index, and the forgiving one in none
        assert any(seen) == any(wrong is not None for _, wrong in program.calls), program
