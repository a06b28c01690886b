"""New tensors, counters, random numbers and writes to a named tensor."""

from __future__ import annotations

import torch
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel, plain

Ints = int | tuple[int, ...]

plain({"ZerosLike": torch.zeros_like, "OnesLike": torch.ones_like})


def _tuple(value: Ints) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else value


@kernel("Fill", host=("dims",))
def fill(op: Operator) -> Run:
    """One value everywhere."""
    constant = (op.constants or {}).get("value")
    if constant is not None:
        number, dtype = constant.item(), constant.dtype
        return lambda dims, value: torch.full(_tuple(dims), number, dtype=dtype)
    return lambda dims, value: value.reshape(()).expand(_tuple(dims)).clone()


@kernel("Empty", host=("shape",))
def empty(op: Operator) -> Run:
    """Zeros: whoever reads memory that was never written gets the same answer every time."""
    dtype = op.dtype("dtype")
    return lambda shape: torch.zeros(_tuple(shape), dtype=dtype)


@kernel("Eye")
def eye(op: Operator) -> Run:
    """Ones on the diagonal."""
    rows, columns = int(op.attr("num_rows")), int(op.attr("num_columns"))
    dtype, batch = op.dtype("dtype"), op.ints("batch_shape")

    def run() -> Tensor:
        one = torch.eye(rows, columns or rows, dtype=dtype)
        return one.expand(*batch, *one.shape).clone() if batch else one

    return run


@kernel("Range")
def range_(op: Operator) -> Run:
    """start, start + delta, ... below limit."""

    def run(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
        return torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)

    return run


@kernel("LinSpace", host=("num",))
def lin_space(op: Operator) -> Run:
    """`num` numbers from start to stop, both included."""

    def run(start: Tensor, stop: Tensor, num: Ints) -> Tensor:
        return torch.linspace(start.item(), stop.item(), _tuple(num)[0], dtype=start.dtype)

    return run


@kernel("Diag")
def diag(op: Operator) -> Run:
    """A matrix with the input on its diagonal."""
    return torch.diag_embed


@kernel("FillDiagonal")
def fill_diagonal(op: Operator) -> Run:
    """A copy with one value on the diagonal."""
    value, wrap = op.attr("fill_value"), bool(op.attr("wrap"))
    return lambda x: x.clone().fill_diagonal_(value, wrap)


@kernel("Assign", writes={"ref": 0})
def assign(op: Operator) -> Run:
    """Overwrites a named tensor."""

    def run(ref: Tensor, value: Tensor) -> Tensor:
        return ref.copy_(value)

    return run


def _generator(key: Tensor, counter: Tensor) -> torch.Generator:
    """A stream of numbers that key and counter decide alone. Its bits are not those of a device."""
    words = [*key.reshape(-1).tolist(), *counter.reshape(-1).tolist()]
    seed = 0
    for word in words:
        seed = (seed * 0x9E3779B97F4A7C15 + int(word) + 1) & (2**63 - 1)
    return torch.Generator().manual_seed(seed)


@kernel("StatelessRandomUniformV2", host=("shape",))
def random_uniform(op: Operator) -> Run:
    """Uniform in [0, 1)."""
    dtype = op.dtype("dtype")

    def run(shape: Ints, key: Tensor, counter: Tensor, alg: Tensor) -> Tensor:
        return torch.rand(_tuple(shape), generator=_generator(key, counter), dtype=dtype)

    return run


@kernel("StatelessRandomNormalV2", host=("shape",))
def random_normal(op: Operator) -> Run:
    """Standard normal."""
    dtype = op.dtype("dtype")

    def run(shape: Ints, key: Tensor, counter: Tensor, alg: Tensor) -> Tensor:
        return torch.randn(_tuple(shape), generator=_generator(key, counter), dtype=dtype)

    return run


@kernel("StatelessBernoulli", host=("shape",))
def random_bernoulli(op: Operator) -> Run:
    """One with probability prob, zero otherwise."""
    dtype = op.dtype("dtype")

    def run(shape: Ints, prob: Tensor, seed: Tensor, offset: Tensor) -> Tensor:
        draws = torch.rand(_tuple(shape), generator=_generator(seed, offset), dtype=torch.float64)
        return (draws < prob.double()).to(dtype)

    return run


@kernel("StatelessRandperm", host=("n",))
def random_permutation(op: Operator) -> Run:
    """The numbers below n in random order."""
    dtype = op.dtype("dtype")

    def run(n: Ints, seed: Tensor, offset: Tensor) -> Tensor:
        return torch.randperm(_tuple(n)[0], generator=_generator(seed, offset), dtype=dtype)

    return run


@kernel("MultinomialWithReplacement")
def multinomial(op: Operator) -> Run:
    """Draws row by row with the probabilities of the row."""
    samples, replacement = int(op.attr("numsamples")), bool(op.attr("replacement"))

    def run(x: Tensor, seed: Tensor, offset: Tensor) -> Tensor:
        return torch.multinomial(x, samples, replacement, generator=_generator(seed, offset))

    return run


@kernel("StatelessDropOutGenMask", host=("shape",))
def dropout_gen_mask(op: Operator) -> Run:
    """Bits, eight to a byte and padded to 128: one where the element stays."""

    def run(shape: Ints, prob: Tensor, seed: Tensor, seed1: Tensor, offset: Tensor | None) -> Tensor:
        count = torch.Size(_tuple(shape)).numel()
        counter = seed1 if offset is None else offset.reshape(-1)
        draws = torch.rand((count + 127) // 128 * 128, generator=_generator(seed, counter))
        bits = (draws < prob.item()).reshape(-1, 8).to(torch.uint8)
        return (bits << torch.arange(8, dtype=torch.uint8)).sum(1, dtype=torch.uint8)

    return run


@kernel("DropOutDoMask")
def dropout_do_mask(op: Operator) -> Run:
    """x / keep_prob where the mask has a bit, zero elsewhere."""

    def run(x: Tensor, mask: Tensor, keep_prob: Tensor) -> Tensor:
        bits = (mask.unsqueeze(1) >> torch.arange(8, dtype=torch.uint8)) & 1
        stays = bits.reshape(-1)[: x.numel()].reshape(x.shape).bool()
        return torch.where(stays, x / keep_prob, torch.zeros_like(x))

    return run
