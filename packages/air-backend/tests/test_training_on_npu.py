"""A training step on an NPU, where torch_npu keeps products and attention as operators of its own."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from air_backend.eager_calls import BackwardLost
from air_backend.eager_calls.errors import RunsEagerly
from air_backend.errors import GraphSplit


class Attention(nn.Module):
    """Products of matrices alone: with and without a bias, of two batches, of a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(8, 8, bias=False), nn.Linear(8, 8)
        self.direction = nn.Parameter(torch.randn(8))

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.softmax(self.q(x) @ self.k(x).mT, -1)
        return (weights @ x @ self.direction).square().sum()


@pytest.mark.npu("only torch_npu keeps matmul and its gradient as one operator")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_products_stay_in_the_graph(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Attention().to("npu", dtype)
    x = torch.randn(2, 3, 8).to("npu", dtype)
    step = torch.compile(model, backend="air", options={"mode": "max-autotune"})
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphSplit)
        step(x).backward()
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    model(x).backward()
    expected = [p.grad for p in model.parameters()]
    near = 5e-2 if dtype is torch.bfloat16 else 1e-5
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=near, atol=near)


class Fused(nn.Module):
    """The attention of torch, of grouped heads or under a mask."""

    def __init__(self, causal: bool, shifted: bool) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(16, 16), nn.Linear(16, 32)
        self.causal, self.shifted = causal, shifted

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (4, 4)).transpose(1, 2) for y in (self.q(x), *self.kv(x).chunk(2, -1)))
        chosen = {"is_causal": True} if self.causal else {"attn_mask": mask if self.shifted else None}
        return F.scaled_dot_product_attention(q, k, v, **chosen).square().sum()


@pytest.mark.npu("only torch_npu has attention as an operator with a gradient of its own")
@pytest.mark.parametrize(("causal", "masked"), [(True, False), (False, True), (False, False)])
def test_attention_and_its_gradient_stay_in_the_graph(causal: bool, masked: bool) -> None:
    torch.manual_seed(0)
    model = Fused(causal, masked).to("npu")
    x, mask = torch.randn(2, 5, 16).to("npu"), (torch.rand(2, 1, 5, 5) < 0.7).to("npu")
    mask |= torch.eye(5, dtype=torch.bool).to("npu")
    step = torch.compile(model, backend="air", options={"mode": "max-autotune"})
    with warnings.catch_warnings():
        warnings.simplefilter("error", GraphSplit)
        loss = step(x, mask)
        loss.backward()
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    expected = model(x, mask)
    expected.backward()
    torch.testing.assert_close(loss, expected)
    assert len(found) == 4
    for ours, parameter in zip(found, model.parameters(), strict=True):
        torch.testing.assert_close(ours, parameter.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.npu("only torch_npu keeps the statistics of a norm of half precision in single precision")
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "norm",
    [nn.LayerNorm(5), nn.BatchNorm2d(4), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4), nn.LocalResponseNorm(2)],
    ids=lambda norm: type(norm).__name__,
)
def test_a_norm_of_half_precision_trains_in_the_graph(norm: nn.Module, dtype: torch.dtype, mode: str) -> None:
    torch.manual_seed(0)
    model = copy.deepcopy(norm).to("npu", dtype)
    x = torch.randn(2, 4, 5, 5).to("npu", dtype)
    found = []
    for run in (model, torch.compile(model, backend="air", options={"mode": mode})):
        leaf = x.clone().requires_grad_()
        model.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("error", GraphSplit)
            result = run(leaf)
            result.mul(leaf.detach().abs()).square().sum().backward()
        found.append(
            [result.detach(), leaf.grad, *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
        )
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0.05, atol=0.05 * float(theirs.abs().max()))


@pytest.mark.npu("torch_npu casts before a softmax of another type by an operator of its own")
@pytest.mark.parametrize("function", [torch.softmax, torch.log_softmax], ids=["softmax", "log_softmax"])
def test_the_gradient_of_a_softmax_in_another_type_stays_in_the_graph(
    function: Callable[..., Tensor],
) -> None:
    x = torch.randn(3, 8).to("npu", torch.bfloat16)
    compiled = torch.compile(function, backend="air", options={"mode": "max-autotune"})
    found = []
    for run in (function, compiled):
        leaf = x.clone().requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("error", GraphSplit)
            run(leaf, -1, dtype=torch.float32).square().sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.dtype is torch.bfloat16
        found.append(leaf.grad)
    torch.testing.assert_close(*found, rtol=1e-2, atol=1e-2)


@pytest.mark.npu("torch_npu makes float32 of what is cast to float64")
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_gradients_of_double_precision_keep_their_type(mode: str) -> None:
    index = torch.arange(2, device="npu")

    def reduced(a: Tensor, b: Tensor) -> Tensor:
        return torch.index_reduce(a, 0, index, b, "amin")

    leaves = [
        torch.randn(2, 3, dtype=torch.float64).to("npu").requires_grad_() for _ in ("written", "reduced")
    ]
    found = []
    for run in (reduced, torch.compile(reduced, backend="air", options={"mode": mode})):
        found.append(torch.autograd.grad(run(*leaves).sin().sum(), leaves))
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


FORMS = ("npu_fusion_attention", "npu_fusion_attention_v2", "npu_fusion_attention_v3")


def trained(attention: Callable[[Tensor], Tensor], q: Tensor) -> list[Tensor]:
    """A result and a gradient, with the numbers that a seed draws."""
    torch.manual_seed(3)
    leaf = q.clone().requires_grad_()
    out = attention(leaf)
    out.float().square().sum().backward()
    assert leaf.grad is not None
    return [out.detach(), leaf.grad]


@pytest.mark.npu("fused attention is an operator of torch_npu")
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("keep", [1.0, 0.8])
def test_the_gradient_of_attention_drops_what_the_forward_dropped(form: str, mode: str, keep: float) -> None:
    def attention(q: Tensor) -> Tensor:
        results = getattr(torch.ops.npu, form)(q, q, q, 2, "BNSD", scale=0.1, keep_prob=keep)
        found: Tensor = results[0]
        return found * 2

    torch._dynamo.reset()
    torch.manual_seed(0)
    step = torch.compile(attention, backend="air", options={"mode": mode})
    warnings.simplefilter("error", RunsEagerly)  # pytest takes it back
    if keep == 1.0:
        warnings.simplefilter("error", GraphSplit)
    for _ in range(3):
        q = torch.randn(1, 2, 64, 32).half().to("npu")
        torch.testing.assert_close(trained(step, q), trained(attention, q), rtol=2e-2, atol=2e-2)


@pytest.mark.npu("fused attention is an operator of torch_npu")
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_attention_with_dropout_whose_seeds_would_be_lost_runs_eagerly(mode: str) -> None:
    def attention(q: Tensor) -> Tensor:
        ends = [32, 64]
        results = torch.ops.npu.npu_fusion_attention(
            q, q, q, 2, "TND", scale=0.1, keep_prob=0.8, actual_seq_qlen=ends, actual_seq_kvlen=ends
        )
        found: Tensor = results[0]
        return found * 2

    torch._dynamo.reset()
    q = torch.randn(64, 2, 32).half().to("npu")
    step = torch.compile(attention, backend="air", options={"mode": mode})
    with pytest.warns(BackwardLost, match="would drop others"):
        found = trained(step, q)
    torch.testing.assert_close(found, trained(attention, q), rtol=2e-2, atol=2e-2)
    strict = {"reduce-overhead": "air.uncapturable", "max-autotune": "air.unsupported"}[mode]
    torch._dynamo.reset()
    refusing = torch.compile(attention, backend="air", options={"mode": mode, strict: "error"})
    with pytest.raises(Exception, match="call npu_fusion_attention_v3"):
        trained(refusing, q)
