"""New tensors, counters, random numbers and writes to a named tensor."""

from __future__ import annotations

import torch
from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel, plain
from air_geir.reference.kernels.shape import Ints, as_tuple

plain(
    {
        "ZerosLike": torch.zeros_like,
        "OnesLike": torch.ones_like,
        "Diag": torch.diag_embed,
        "FillDiagonal": (
            lambda x, value, wrap: x.clone().fill_diagonal_(value, wrap),
            "value=fill_value wrap",
        ),
        "Range": lambda start, limit, delta: torch.arange(
            start.item(), limit.item(), delta.item(), dtype=start.dtype
        ),
    }
)
plain({"Assign": lambda ref, value: ref.copy_(value)}, writes={"ref": 0})
plain(  # zeros: whoever reads memory that was never written gets the same answer every time
    {"Empty": (lambda shape, dtype: torch.zeros(as_tuple(shape), dtype=dtype), "dtype=type(dtype)")},
    host=("shape",),
)


def _lin_space(start: Tensor, stop: Tensor, num: Ints) -> Tensor:
    """`num` numbers from start to stop, both included."""
    return torch.linspace(start.item(), stop.item(), as_tuple(num)[0], dtype=start.dtype)


plain({"LinSpace": _lin_space}, host=("num",))


@kernel("Fill", host=("dims",))
def fill(op: Operator) -> Run:
    """One value everywhere."""
    constant = (op.constants or {}).get("value")
    if constant is not None:
        number, dtype = constant.item(), constant.dtype
        return lambda dims, value: torch.full(as_tuple(dims), number, dtype=dtype)
    return lambda dims, value: value.reshape(()).expand(as_tuple(dims)).clone()


@kernel("Eye")
def eye(op: Operator) -> Run:
    """Ones on the diagonal."""
    rows, columns = int(op.attr("num_rows")), int(op.attr("num_columns"))
    dtype, batch = op.dtype("dtype"), op.ints("batch_shape")

    def run() -> Tensor:
        one = torch.eye(rows, columns or rows, dtype=dtype)
        return one.expand(*batch, *one.shape).clone() if batch else one

    return run


def _generator(key: Tensor, counter: Tensor) -> torch.Generator:
    """A stream of numbers that key and counter decide alone. Its bits are not those of a device."""
    words = [*key.reshape(-1).tolist(), *counter.reshape(-1).tolist()]
    seed = 0
    for word in words:
        seed = (seed * 0x9E3779B97F4A7C15 + int(word) + 1) & (2**63 - 1)
    return torch.Generator().manual_seed(seed)


def _drawn(draw: Run) -> Run:
    def run(shape: Ints, key: Tensor, counter: Tensor, alg: Tensor, dtype: torch.dtype) -> Tensor:
        numbers: Tensor = draw(as_tuple(shape), generator=_generator(key, counter), dtype=dtype)
        return numbers

    return run


def _bernoulli(shape: Ints, prob: Tensor, seed: Tensor, offset: Tensor, dtype: torch.dtype) -> Tensor:
    """One with probability prob, zero otherwise."""
    draws = torch.rand(as_tuple(shape), generator=_generator(seed, offset), dtype=torch.float64)
    return (draws < prob.double()).to(dtype)


def _permutation(n: Ints, seed: Tensor, offset: Tensor, dtype: torch.dtype) -> Tensor:
    """The numbers below n in random order."""
    return torch.randperm(as_tuple(n)[0], generator=_generator(seed, offset), dtype=dtype)


def _multinomial(x: Tensor, seed: Tensor, offset: Tensor, numsamples: int, replacement: bool) -> Tensor:
    """Draws row by row with the probabilities of the row."""
    return torch.multinomial(x, numsamples, replacement, generator=_generator(seed, offset))


plain(
    {
        "StatelessRandomUniformV2": (_drawn(torch.rand), "dtype=type(dtype)"),
        "StatelessRandomNormalV2": (_drawn(torch.randn), "dtype=type(dtype)"),
        "StatelessBernoulli": (_bernoulli, "dtype=type(dtype)"),
    },
    host=("shape",),
)
plain({"StatelessRandperm": (_permutation, "dtype=type(dtype)")}, host=("n",))
plain({"MultinomialWithReplacement": (_multinomial, "numsamples replacement")})


def _by_parameters(draw: Run) -> Run:
    """One number for each element of the shape, whose last axes the parameters have."""

    def run(shape: Ints, seed: Tensor, *parameters: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        spread = (parameter.expand(as_tuple(shape)).contiguous() for parameter in parameters)
        numbers: Tensor = draw(*spread, generator=_generator(seed, seed.new_zeros(0)))
        return numbers if dtype is None else numbers.to(dtype)

    return run


plain(
    {
        "StatelessRandomGammaV2": _by_parameters(torch._standard_gamma),
        "StatelessRandomPoisson": (_by_parameters(torch.poisson), "dtype=type(dtype)"),
        "StatelessRandomBinomial": (_by_parameters(torch.binomial), "dtype=type(dtype)"),
    },
    host=("shape",),
)
plain({"RandomGammaGrad": torch._standard_gamma_grad})


@kernel("StatelessDropOutGenMask", host=("shape",))
def dropout_gen_mask(op: Operator) -> Run:
    """Bits, eight to a byte and padded to 128: one where the element stays."""

    def run(shape: Ints, prob: Tensor, seed: Tensor, seed1: Tensor, offset: Tensor | None) -> Tensor:
        count = torch.Size(as_tuple(shape)).numel()
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
