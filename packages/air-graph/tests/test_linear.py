"""What is computed of a gradient is known to be linear in it, or it is said where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx
from torch._functorch.aot_autograd import aot_function
from torch._functorch.compilers import nop
from torch._functorch.partitioners import default_partition
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F  # noqa: N812

from air_graph import NotLinear, followers_of, why_not_linear


def numbers(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(*size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


FUNCTIONS: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k), (numbers(1, 2, 3, 4), numbers(1, 2, 3, 4))),
    "batch norm": (lambda x, w: F.batch_norm(x, None, None, w, training=True), (numbers(3, 4), numbers(4))),
    "cat": (lambda x, y: torch.cat([x, y * 2, x[:1]]).sum(0), (numbers(2, 3), numbers(2, 3))),
    "chunks": (lambda x: torch.mul(*x.chunk(2, -1)), (numbers(2, 4),)),
    "convolution": (lambda x, w, b: F.conv2d(x, w, b), (numbers(1, 2, 4, 4), numbers(3, 2, 3, 3), numbers(3))),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w), (numbers(1, 2, 4, 4), numbers(2, 3, 3, 3))),
    "cross entropy": (lambda x: F.cross_entropy(x, torch.arange(3)), (numbers(3, 4),)),
    "cumsum": (lambda x: x.cumsum(1), (numbers(2, 3),)),
    "diagonal": (lambda x: x.diagonal() * x.tril().trace(), (numbers(3, 3),)),
    "division": (lambda x, y: x / (y * y + 1), (numbers(2, 3), numbers(3))),
    "embedding": (lambda w: F.embedding(torch.tensor([0, 2, 2]), w), (numbers(4, 3),)),
    "fourier": (lambda x: torch.fft.rfft(x).abs(), (numbers(2, 8),)),
    "gather": (lambda x: x.gather(1, torch.tensor([[0, 1], [2, 2]])), (numbers(2, 3),)),
    "gelu": (F.gelu, (numbers(2, 3),)),
    "group norm": (lambda x, w: F.group_norm(x, 2, w), (numbers(2, 4, 3), numbers(4))),
    "index": (lambda x: x[torch.tensor([0, 0, 1])], (numbers(2, 3),)),
    "index put": (lambda x, y: x.index_put((torch.tensor([0, 1]),), y), (numbers(3, 2), numbers(2, 2))),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), (numbers(2, 4), numbers(4), numbers(4))),
    "linear": (lambda x, w, b: F.linear(x, w, b), (numbers(2, 3), numbers(4, 3), numbers(4))),
    "log softmax": (lambda x: x.log_softmax(-1), (numbers(2, 3),)),
    "masked fill": (lambda x: x.masked_fill(torch.eye(2, dtype=torch.bool), 3.0), (numbers(2, 2),)),
    "maximum": (lambda x, y: torch.maximum(x, y) + x.amax(0), (numbers(2, 3), numbers(2, 3))),
    "norm": (lambda x: x.norm(dim=1) + x.std(1) + x.logsumexp(1), (numbers(2, 3),)),
    "padding": (lambda x: F.pad(x, (1, -1), value=2.0), (numbers(2, 3),)),
    "pooling": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2), (numbers(1, 2, 4, 4),)),
    "powers": (lambda x: x.pow(3) + x.exp() + x.sin() + (x * x + 1).log() + x.sigmoid().sqrt(), (numbers(2, 3),)),
    "products": (lambda x, y: x @ y + torch.einsum("ij,jk->ik", x, y), (numbers(2, 3), numbers(3, 2))),
    "resize": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (numbers(1, 1, 2, 2),)),
    "scatter": (lambda x, y: x.scatter_add(1, torch.tensor([[0, 1], [2, 2]]), y), (numbers(2, 3), numbers(2, 2))),
    "selections": (lambda x: x[0] * x[:, 1].sum() + x.narrow(0, 1, 1), (numbers(2, 3),)),
    "shuffles": (lambda x: F.pixel_shuffle(x, 2).roll(1, -1).flip(-1), (numbers(1, 4, 2, 2),)),
    "silu": (lambda x: F.silu(x) + F.relu(x) + F.tanh(x) + F.softplus(x) + F.leaky_relu(x), (numbers(2, 3),)),
    "slice scatter": (lambda x, y: x.slice_scatter(y, 0, 1, 2), (numbers(3, 2), numbers(1, 2))),
    "softmax": (lambda x: x.softmax(-1), (numbers(2, 3),)),
    "sorted": (lambda x: x.sort(-1).values + x.topk(3, -1).values.mean(), (numbers(2, 3),)),
    "stack": (lambda x, y: torch.stack([x, y, x]).prod(0), (numbers(2, 3), numbers(2, 3))),
    "unfold": (lambda x: x.unfold(1, 2, 1).repeat(1, 1, 2) + F.unfold(x[None, None], 2).sum(), (numbers(2, 4),)),
    "where": (lambda x, y: torch.where(x > 0, x, y * 2), (numbers(2, 3), numbers(2, 3))),
}  # fmt: skip


def tangent_of(function: Callable[..., Tensor], args: tuple[Tensor, ...]) -> fx.Node:
    """The gradient of the result in the joint graph that AOTAutograd makes of a function."""
    found: list[fx.Node] = []

    def divided(joint: fx.GraphModule, *inputs: Any, **known: Any) -> Any:
        holders = joint.graph.find_nodes(op="placeholder")
        found.extend(node for node in holders if str(node.target).startswith("tangents"))
        return default_partition(joint, *inputs, **known)

    leaves = [arg.detach().requires_grad_() for arg in args]
    aot_function(function, fw_compiler=nop, partition_fn=divided)(*leaves)
    return found[0]


def gradients(function: Callable[..., Tensor], args: tuple[Tensor, ...], tangent: Tensor) -> Any:
    """What eager computes of the gradient of a result."""
    leaves = [arg.detach().requires_grad_() for arg in args]
    return torch.autograd.grad(function(*leaves), leaves, tangent)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_derivatives_of_torch_are_linear_and_known_to_be(name: str) -> None:
    function, args = FUNCTIONS[name]
    assert why_not_linear(tangent_of(function, args)) is None
    tangents = [torch.randn_like(function(*args)) for _ in range(2)]
    separately = [gradients(function, args, tangent) for tangent in tangents]
    both = zip(gradients(function, args, 3 * tangents[0] + tangents[1]), *separately, strict=True)
    for joined, first, second in both:
        torch.testing.assert_close(joined, 3 * first + second)


class Custom(torch.autograd.Function):
    """Gives its argument, and a gradient by the formula of a test."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, formula: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        ctx.save_for_backward(x)
        ctx.formula = formula
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.formula(gradient, *ctx.saved_tensors), None


def found_in(
    formula: Callable[[Tensor, Tensor], Tensor], dtype: torch.dtype = torch.float64
) -> NotLinear | None:
    apply: Any = Custom.apply
    return why_not_linear(tangent_of(lambda x: apply(x, formula), (torch.ones(2, 3, dtype=dtype),)))


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        (lambda g, x: g.clamp(-1, 1), "aten.clamp.default is not known to be linear"),
        (lambda g, x: g.sign() * x, "aten.sign.default is not known to be linear"),
        (lambda g, x: g * g, "multiplies a gradient by a gradient"),
        (lambda g, x: g + x, "adds other to a gradient"),
        (lambda g, x: g + 1, "adds other to a gradient"),
        (lambda g, x: torch.addmm(x, x[:, :2], g), "adds self to a gradient"),
        (lambda g, x: x / g, "not known to be linear in its argument other"),
        (lambda g, x: torch.cat([g[:1], x[:1]]), "joins a gradient with something else"),
        (lambda g, x: g.masked_fill(x > 0, 2.0), "adds value to a gradient"),
        (lambda g, x: torch.where(g > 0, x, 0.0), "aten.gt.Scalar is not known to be linear"),
        (lambda g, x: g.long().double(), "a gradient becomes torch.int64"),
        (lambda g, x: torch.div(g, 3, rounding_mode="floor"), "is not known to be linear"),
        (lambda g, x: x.index_put((torch.tensor([0]),), g[:1]), "adds self to a gradient"),
    ],
)  # fmt: skip
def test_formulas_that_are_not_linear_are_named(
    formula: Callable[[Tensor, Tensor], Tensor], reason: str
) -> None:
    found = found_in(formula)
    assert found is not None
    assert reason in found.reason
    once, thrice = (formula(n * torch.ones(2, 3).double(), torch.ones(2, 3).double()) for n in (2.4, 7.2))
    assert not torch.allclose(3 * once, thrice)


@pytest.mark.parametrize(
    "formula",
    [
        lambda g, x: g * x + torch.zeros_like(g),
        lambda g, x: g * torch.ones_like(g) * g.size(0),
        lambda g, x: torch.where(x > 0, g, torch.zeros_like(x).expand(2, 3)),
        lambda g, x: torch.cat([g[:1], x.new_zeros(1, 3)]),
        lambda g, x: x * 2,
    ],
)
def test_formulas_that_add_nothing_are_linear(formula: Callable[[Tensor, Tensor], Tensor]) -> None:
    assert found_in(formula) is None


def test_half_precision_is_not_scaled_afterwards() -> None:
    found = found_in(lambda g, x: g * x, torch.float16)
    assert found is not None
    assert "torch.float16, whose range is too narrow" in found.reason
    assert found_in(lambda g, x: g * x, torch.bfloat16) is None


def test_who_reads_the_size_of_a_value_alone_does_not_follow_it() -> None:
    gm = make_fx(lambda g: (torch.ones_like(g) + 1, g + g), tracing_mode="fake")(torch.ones(2))
    source = gm.graph.find_nodes(op="placeholder")[0]
    followers = followers_of(source) - {source}
    assert [(node.target, node.args) for node in followers] == [(torch.ops.aten.add.Tensor, (source, source))]
