"""Steps of training over a device or air-sim, each one graph: results and gradients are those of eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.distributions import Categorical

import air_geir
from air_config import CompilerConfig, Context, resolve

torch_npu = pytest.importorskip("torch_npu")
pytestmark = [pytest.mark.npu, pytest.mark.usefixtures("device_engine")]
SETTINGS = resolve(CompilerConfig(), Context(device="npu"))
Step = Callable[..., Tensor]


def compiled(function: Step, *, dynamic: bool | None = None) -> Step:
    """One graph each way: what has no converter is an error."""

    def inner(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        executable = air_geir.compile_graph(gm, inputs, settings=SETTINGS)

        def run(args: list[Any]) -> list[Any]:
            return executable(*args)

        run._boxed_call = True  # type: ignore[attr-defined]  # read by AOTAutograd
        return run

    torch._dynamo.reset()
    return torch.compile(function, backend=aot_autograd(fw_compiler=inner), fullgraph=True, dynamic=dynamic)


def stepped(function: Step, *args: Tensor) -> list[Tensor | None]:
    """The result and the gradients, on the host."""
    given = [x.to("npu").requires_grad_(x.is_floating_point()) for x in args]
    result = function(*given)
    if result.requires_grad:
        result.square().sum().backward()
    return [result.detach().cpu(), *(None if x.grad is None else x.grad.cpu() for x in given)]


STEPS: dict[str, tuple[Step, Callable[[], Sequence[Tensor]]]] = {
    "log_prob of a class": (
        lambda logits, value: Categorical(logits=logits).log_prob(value),
        lambda: (torch.randn(3, 5), torch.tensor([0, 2, 4])),
    ),
    "gather that takes twice": (
        lambda x, i: x.gather(1, i), lambda: (torch.randn(2, 5), torch.tensor([[0, 2, 2], [4, 4, 4]])),
    ),
    "gather of rows": (
        lambda x, i: x.gather(0, i), lambda: (torch.randn(5, 3), torch.tensor([[0, 2, 2], [4, 4, 4]])),
    ),
    "transposed convolution": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1),
        lambda: (torch.randn(2, 4, 5, 5), torch.randn(4, 3, 3, 3), torch.randn(3)),
    ),
    "transposed convolution in groups": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=(2, 1), groups=2, dilation=2),
        lambda: (torch.randn(2, 4, 5, 5), torch.randn(4, 3, 3, 3), torch.randn(6)),
    ),
    "transposed convolution of a signal": (
        lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1),
        lambda: (torch.randn(2, 4, 5), torch.randn(4, 3, 3)),
    ),
    "transposed convolution of a volume": (
        lambda x, w, b: F.conv_transpose3d(x, w, b, stride=2),
        lambda: (torch.randn(1, 2, 3, 3, 3), torch.randn(2, 3, 2, 2, 2), torch.randn(3)),
    ),
    "product of bytes": (
        lambda a, b: torch._int_mm(a, b),
        lambda: tuple(torch.randint(-9, 9, (32, 32), dtype=torch.int8) for _ in range(2)),
    ),
    "weight normalisation": (
        lambda v, g: torch._weight_norm(v, g, 0), lambda: (torch.randn(4, 3), torch.randn(4, 1)),
    ),
    "weight normalisation of a vector": (
        lambda v, g: torch._weight_norm(v, g, 0), lambda: (torch.randn(4), torch.randn(4)),
    ),
    **{
        f"l1_loss, {how}": (
            lambda a, b, how=how: F.l1_loss(a, b, reduction=how), lambda: (torch.randn(3, 4), torch.randn(3, 4)),
        )
        for how in ("none", "mean", "sum")
    },
    "repeats of rows": (lambda x: x.repeat_interleave(3, 0), lambda: (torch.randn(2, 4),)),
    "repeats of heads": (lambda x: x.repeat_interleave(2, dim=-2), lambda: (torch.randn(2, 3, 4),)),
    "repeats of elements": (lambda x: x.repeat_interleave(2), lambda: (torch.randn(2, 4),)),
    **{
        f"{function.__name__}": (function, lambda: (torch.rand(3, 4) * 9 + 0.1,))
        for function in (torch.lgamma, torch.digamma)
    },
    "logsigmoid": (F.logsigmoid, lambda: (torch.randn(3, 4),)),
    "what is close": (
        lambda a, b: torch.isclose(a, a + b * 1e-6, equal_nan=True), lambda: (torch.randn(4, 3), torch.randn(4, 3)),
    ),
    "bilinear form": (
        F.bilinear, lambda: (torch.randn(4, 3), torch.randn(4, 5), torch.randn(6, 3, 5), torch.randn(6)),
    ),
    "average of a volume": (lambda x: F.avg_pool3d(x, 3, 2, 1), lambda: (torch.randn(1, 2, 5, 6, 7),)),
    "maximum of a volume": (lambda x: F.max_pool3d(x, 3, 2, 1), lambda: (torch.randn(1, 2, 5, 6, 7),)),
    **{
        f"bags, {mode}, {'with' if last else 'without'} their end": (
            lambda t, i, o, mode=mode, last=last: F.embedding_bag(i, t, o, mode=mode, include_last_offset=last),
            lambda: (torch.randn(6, 3), torch.tensor([1, 4, 1, 0, 5]), torch.tensor([0, 2, 5])),
        )
        for mode in ("sum", "mean", "max")
        for last in (False, True)
    },
    "vector through a layer": (F.linear, lambda: (torch.randn(6), torch.randn(3, 6))),
    "product with a vector": (torch.matmul, lambda: (torch.randn(4, 6), torch.randn(6))),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_N03_a_step_is_one_graph_each_way_and_gives_what_eager_gives(name: str) -> None:
    torch.manual_seed(0)
    function, operands = STEPS[name]
    given = operands()
    torch.testing.assert_close(
        stepped(compiled(function), *given), stepped(function, *given), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("name", [name for name in STEPS if name.startswith("bags")])
def test_N03_bags_of_sizes_that_vary_train(name: str) -> None:
    """Their indices are computed from offsets: the made-up ones of a dry run in air-sim led outside of the bags."""
    torch.manual_seed(0)
    function, operands = STEPS[name]
    step = compiled(function, dynamic=True)
    table, indices, offsets = operands()
    for given in ((table, indices, offsets), (table, indices[:4], torch.tensor([0, 4]))):
        torch.testing.assert_close(stepped(step, *given), stepped(function, *given), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "sizes", [((2, 6, 1, 4), (6, 4, 5)), ((6, 3, 4), (2, 6, 4, 5)), ((2, 1, 3, 4), (6, 4, 5))]
)
def test_N03_a_product_of_batches_that_are_broadcast_trains(
    sizes: tuple[tuple[int, ...], ...], dynamic: bool
) -> None:
    """torch_npu leaves the gradient of the smaller batch broadcast, and the graph sums over it."""
    torch.manual_seed(0)
    given = [torch.randn(size) for size in sizes]
    step = compiled(torch.matmul, dynamic=dynamic)
    torch.testing.assert_close(stepped(step, *given), stepped(torch.matmul, *given), atol=1e-5, rtol=1e-5)


NORMS: dict[str, Step] = {
    "layer_norm": lambda x: F.layer_norm(x, [8], eps=1e-5),
    "group_norm": lambda x: F.group_norm(x, 2, eps=1e-5),
    "rms_norm": lambda x: F.rms_norm(x, [8], eps=1e-5),
    "batch_norm": lambda x: F.batch_norm(x, x.new_zeros(8), x.new_full((8,), 1e-9), eps=1e-5),
}


@pytest.mark.parametrize("name", NORMS)
def test_N03_the_epsilon_of_a_norm_in_double_precision_is_a_double(name: str) -> None:
    """An attribute has 32 bits: 1e-5 was off in its ninth digit, and so was every result for small values."""
    torch.manual_seed(0)
    x = torch.randn(4, 8, dtype=torch.float64) * 1e-4
    with torch.no_grad():
        found = compiled(NORMS[name])(x.to("npu")).cpu()
    torch.testing.assert_close(found, NORMS[name](x), rtol=1e-12, atol=1e-18)


def probabilities() -> Tensor:
    return torch.tensor([[0.0, 0.3, 0.7], [0.2, 0.8, 0.0]])


BEFORE_THE_HOST: dict[str, Step] = {
    **{
        f"kl_div, {how}": lambda x, how=how: F.kl_div(
            x.log_softmax(1), probabilities().to(x.device), reduction=how
        )
        for how in ("mean", "sum", "none", "batchmean")
    },
    "kl_div of logarithms": lambda x: F.kl_div(
        x.log_softmax(1), (probabilities() - 2).to(x.device), log_target=True, reduction="sum"
    ),
}


@pytest.mark.parametrize("name", BEFORE_THE_HOST)
def test_N03_gradients_that_air_sim_has_only_in_a_graph_are_those_of_the_host(name: str) -> None:
    torch.manual_seed(0)
    x, function = torch.randn(2, 3), BEFORE_THE_HOST[name]

    def gradients(step: Step, device: str) -> list[Tensor | None]:
        given = x.to(device).requires_grad_()
        result = step(given)
        result.square().sum().backward()
        return [result.detach().cpu(), None if given.grad is None else given.grad.cpu()]

    torch.testing.assert_close(gradients(compiled(function), "npu"), gradients(function, "cpu"))


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_N03_distances_and_their_gradient_are_those_of_the_host(p: float) -> None:
    """Eager calls of torch_npu take an operator here that air-sim does not have."""
    torch.manual_seed(0)
    first, second = torch.randn(2, 4, 3), torch.randn(5, 3)

    def gradients(function: Step, device: str) -> list[Tensor | None]:
        given = [x.to(device).requires_grad_() for x in (first, second)]
        result = function(*given)
        result.square().sum().backward()
        return [result.detach().cpu(), *(None if x.grad is None else x.grad.cpu() for x in given)]

    def distances(a: Tensor, b: Tensor) -> Tensor:
        return torch.cdist(a, b, p)

    torch.testing.assert_close(gradients(compiled(distances), "npu"), gradients(distances, "cpu"))


def test_N03_what_is_drawn_by_parameters_is_in_one_graph_and_has_their_mean() -> None:
    rates = torch.tensor([[0.5, 4.0, 9.0]]).repeat(4000, 1)
    draws: dict[Step, Tensor] = {
        torch._standard_gamma: rates,
        torch.poisson: rates,
        lambda x: torch.binomial(x * 0 + 10, x / 10): rates,
        torch._sample_dirichlet: rates / rates.sum(-1, keepdim=True),
    }
    for draw, mean in draws.items():
        with torch.no_grad():
            found = compiled(draw)(rates.to("npu")).cpu()
        torch.testing.assert_close(found.mean(0), mean[0], rtol=0.1, atol=0)


def test_N03_the_gradient_of_gamma_is_of_the_numbers_that_were_drawn() -> None:
    alpha = torch.linspace(0.3, 9, 40, device="npu").requires_grad_()
    drawn = compiled(torch._standard_gamma)(alpha)
    drawn.sum().backward()
    assert alpha.grad is not None
    expected = torch._standard_gamma_grad(alpha.detach().cpu(), drawn.detach().cpu())
    torch.testing.assert_close(alpha.grad.cpu(), expected)
