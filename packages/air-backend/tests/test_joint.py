"""Forward and backward as one graph: the gradients are eager's, and what cannot be joined is divided and says why."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from air_backend import _joint, _records
from air_backend.eager_calls import GradientsOfGradients, SecondDerivativeRefused
from air_backend.errors import NotJoined

JOINT = {"experimental_config.aot_config_enable_joint_graph": True}
MODES = ["max-autotune", "reduce-overhead"]


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_joint, "_told", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotJoined)
        yield


@pytest.fixture(params=MODES)
def joined(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Compiles a function with forward and backward as one graph."""
    return lambda f, **options: compiled(f, request.param, **options)


def compiled(function: Any, mode: str = "max-autotune", **options: Any) -> Any:
    return torch.compile(function, backend="air", options={"mode": mode, **JOINT, **options})


def numbers(*size: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed)).to(dtype)


def roles() -> list[str]:
    return [record.role for record, _ in _records.alive()]


def operators(role: str) -> set[str]:
    found = next(record for record, _ in _records.alive() if record.role == role)
    return {target.split(".")[1] for target in found.targets.values()}


class Attention(nn.Module):
    """A layer of a language model, and its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.inner, self.outer = nn.Linear(8, 24), nn.Linear(8, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        q, k, v = self.inner(self.norm(self.table(tokens))).chunk(3, -1)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.cross_entropy(self.outer(mixed).flatten(0, 1), tokens.flatten())


class Convolutions(nn.Module):
    """Convolutions and norms with statistics, and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return F.mse_loss(self.body(x), x.mean((2, 3))[:, :1].expand(-1, 5))


class Counting(nn.Module):
    """Writes a buffer in each call, and reads it before."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("seen", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        scaled = self.layer(x) * self.seen.clone()
        self.seen.add_(x.detach().mean(0))
        loss: Tensor = (scaled * self.seen).square().mean()
        return loss


class Mixed(nn.Module):
    """Parameters of several types, one of them a single number."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4, dtype=torch.bfloat16)
        self.factor = nn.Parameter(torch.tensor(0.5, dtype=torch.bfloat16))
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        loss: Tensor = (self.layer(x.bfloat16()) * self.factor).float().square().sum()
        return loss


MODELS: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "attention": (Attention, torch.arange(12).reshape(2, 6) % 11),
    "convolutions": (Convolutions, numbers(2, 3, 8, 8)),
    "counting": (Counting, numbers(3, 4)),
    "mixed": (Mixed, numbers(3, 4)),
}


def steps(model: nn.Module, call: Callable[..., Tensor], x: Tensor) -> list[Any]:
    """Losses, gradients that add up, and buffers, of steps with several factors before the backward."""
    found: list[Any] = []
    for factor in (1.0, 0.25, 3.0):
        loss = call(x)
        (loss * factor).backward()
        found += [loss.detach(), *(None if p.grad is None else p.grad.clone() for p in model.parameters())]
        found += [buffer.clone() for buffer in model.buffers()]
    return found


def held(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    coarse = any(other is not None and other.dtype == torch.bfloat16 for other in expected)
    tolerance = 2e-2 if coarse else 1e-4
    for at, (one, other) in enumerate(zip(found, expected, strict=True)):
        if other is None:
            assert one is None, at
        else:
            torch.testing.assert_close(one.cpu(), other.cpu(), rtol=tolerance, atol=tolerance)
            assert one.stride() == other.stride(), at


@pytest.mark.parametrize("name", MODELS)
def test_G44_a_step_of_training_gives_eagers_gradients(name: str, device: str, joined: Any) -> None:
    torch.manual_seed(0)
    make, x = MODELS[name]
    model = make()
    mine = copy.deepcopy(model).to(device)
    held(steps(mine, joined(mine), x.to(device)), steps(model, model, x))
    assert roles() == ["joint", "backward"]
    assert operators("backward") <= {"mul", "mul_", "view", "t", "_to_copy", "transpose", "permute", "expand"}


def test_an_optimizer_gets_where_it_gets_with_eager(joined: Any) -> None:
    torch.manual_seed(0)
    model = Convolutions()
    mine = copy.deepcopy(model)
    x = numbers(2, 3, 8, 8)
    for each, call in ((model, model), (mine, joined(mine))):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9)
        for _ in range(5):
            optimizer.zero_grad()
            call(x).backward()
            optimizer.step()
    held([*mine.state_dict().values()], [*model.state_dict().values()])


def test_sizes_may_change_from_call_to_call(joined: Any) -> None:
    weight = numbers(4, 4).requires_grad_()
    call = joined(lambda x: (x @ weight).relu().sum() / x.size(0), **{"air.engine": "auto"})
    for rows in (3, 5, 8):
        x = numbers(rows, 4, seed=rows)
        torch._dynamo.mark_dynamic(x, 0)
        mine = torch.autograd.grad(call(x) * 2, weight)
        theirs = torch.autograd.grad(2 * (x @ weight).relu().sum() / rows, weight)
        torch.testing.assert_close(mine, theirs)
    assert roles() == ["joint", "backward"]


def test_gradients_lie_as_eagers_do(joined: Any) -> None:
    leaves = [numbers(3, 4).requires_grad_(), numbers(4, 3, seed=1).requires_grad_()]

    def loss(x: Tensor, y: Tensor) -> Tensor:
        return x.sum() + (x * y.t()).mean()

    mine, theirs = (torch.autograd.grad(f(*leaves), leaves) for f in (joined(loss), loss))
    held([*mine], [*theirs])
    held(*([*torch.autograd.grad(f(leaves[0]), leaves[:1])] for f in (joined(torch.sum), torch.sum)))


def test_kept_gradients_stay_what_they_were(joined: Any) -> None:
    weight = numbers(4, 4).requires_grad_()
    call = joined(lambda x: (x @ weight).square().mean())
    kept = [torch.autograd.grad(call(numbers(3, 4, seed=seed)), weight)[0] for seed in range(4)]
    for seed, gradient in enumerate(kept):
        x = numbers(3, 4, seed=seed)
        torch.testing.assert_close(gradient, *torch.autograd.grad((x @ weight).square().mean(), weight))


def test_two_forwards_may_come_before_their_backwards(joined: Any) -> None:
    weight = numbers(4).requires_grad_()
    call = joined(lambda x: (x * weight).square().sum())
    first, second = call(numbers(4, seed=1)), call(numbers(4, seed=2))
    for loss, seed in ((second, 2), (first, 1)):
        x = numbers(4, seed=seed)
        torch.testing.assert_close(torch.autograd.grad(loss, weight), (2 * x * x * weight.detach(),))


def test_who_writes_to_a_gradient_does_not_change_the_next_backward(joined: Any) -> None:
    weight = numbers(4).requires_grad_()
    loss = joined(lambda x: (x * weight).sum())(torch.ones(4))
    for _ in range(3):
        loss.backward(retain_graph=True)
        assert weight.grad is not None
        assert torch.equal(weight.grad, torch.ones(4))
        weight.grad.zero_()
        weight.grad = None
    with pytest.warns(GradientsOfGradients):
        gradient = torch.autograd.grad(loss, weight, create_graph=True)[0].sum()
    with pytest.raises(RuntimeError, match="does not require grad"):  # as in eager
        gradient.backward()


def test_the_same_seed_drops_the_same_elements(joined: Any) -> None:
    weight = numbers(40).requires_grad_()

    def loss(x: Tensor) -> Tensor:
        return F.dropout(x * weight, 0.5).square().sum()

    found = []
    for joint in (True, False):
        call = joined(loss, **dict.fromkeys(JOINT, joint))
        torch.manual_seed(3)
        found.append([call(torch.ones(40)), *torch.autograd.grad(call(torch.ones(40)), weight)])
    held(*found)


def test_results_without_gradients_come_as_they_are(joined: Any) -> None:
    weight = numbers(4, 4).requires_grad_()

    def loss(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x @ weight
        return y.detach(), y.square().mean(), y.argmax(-1)

    x = numbers(3, 4)
    mine, theirs = joined(loss)(x), loss(x)
    assert [each.requires_grad for each in mine] == [False, True, False]
    held([*mine, *torch.autograd.grad(mine[1], weight)], [*theirs, *torch.autograd.grad(theirs[1], weight)])
    assert roles() == ["joint", "backward"]


def test_arguments_that_are_written_are_written_once(joined: Any) -> None:
    weight = numbers(4).requires_grad_()

    def loss(x: Tensor) -> Tensor:
        before = (x.clone() * weight).sum()
        x.mul_(2)
        return before + (x * weight).square().sum()

    found = []
    for call in (joined(loss), loss):
        x = numbers(4)
        found.append([*torch.autograd.grad(call(x), weight), x])
    held(*found)


def test_a_call_without_gradients_computes_none(joined: Any) -> None:
    weight = numbers(4, 4).requires_grad_()
    with torch.no_grad():
        joined(lambda x: (x @ weight).sum())(numbers(3, 4))
    assert roles() == ["inference"]


def test_what_is_recomputed_otherwise_is_computed_once(joined: Any) -> None:
    layer = nn.Linear(4, 4)

    def loss(x: Tensor) -> Tensor:
        found: Tensor = checkpoint(lambda y: layer(y).sin().exp(), x, use_reentrant=False)
        return found.sum()

    x = numbers(3, 4)
    mine, theirs = (torch.autograd.grad(f(x), layer.weight) for f in (joined(loss), loss))
    torch.testing.assert_close(mine, theirs)
    assert roles() == ["joint", "backward"]


def test_a_loss_may_have_dimensions_of_one_element(joined: Any) -> None:
    weight = numbers(4).requires_grad_()

    def loss(x: Tensor) -> Tensor:
        return (x * weight).sum(0, keepdim=True)[None]

    x, tangent = numbers(4), torch.full((1, 1), 2.5)
    mine, theirs = (torch.autograd.grad(f(x), weight, tangent) for f in (joined(loss), loss))
    torch.testing.assert_close(mine, theirs)
    assert roles() == ["joint", "backward"]


class Clipped(torch.autograd.Function):
    """A gradient that the program clips itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.clamp(-0.5, 0.5)


def two_losses(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return (x * w).sum(), (x * w).square().sum()


def no_loss(x: Tensor, w: Tensor) -> Tensor:
    return x * w


def clipped(x: Tensor, w: Tensor) -> Tensor:
    return Clipped.apply(x * w).sum()  # type: ignore[no-any-return, no-untyped-call]


def in_half(x: Tensor, w: Tensor) -> Tensor:
    return (x.half() * w.half()).float().sum()


def of_a_complex_number(x: Tensor, w: Tensor) -> Tensor:
    return torch.complex(x * w, x).sum()


def penalized(call: Callable[..., Tensor], w: Tensor) -> tuple[Tensor, ...]:
    """The gradient of a loss with a penalty on its gradient: a sum, which torch does not miss a part of."""
    loss = call(numbers(4))
    (slope,) = torch.autograd.grad(loss, w, create_graph=True)
    return torch.autograd.grad(loss + 100 * slope.pow(2).sum(), w)


def test_a_gradient_of_a_gradient_is_eagers(joined: Any) -> None:
    w = numbers(4, seed=1).requires_grad_()

    def loss(x: Tensor) -> Tensor:
        return (x * w).tanh().square().sum()

    with pytest.warns(GradientsOfGradients):
        found = penalized(joined(loss), w)
    torch.testing.assert_close(found, penalized(loss, w))
    assert roles()[0] == "joint"


def test_a_gradient_of_a_gradient_is_an_error_where_the_loss_draws_random_numbers(joined: Any) -> None:
    w = numbers(4, seed=1).requires_grad_()
    with pytest.raises(SecondDerivativeRefused, match="draws random numbers"):
        penalized(joined(lambda x: F.dropout(x * w).square().sum()), w)


DIVIDED = {
    "two losses": (two_losses, "2 results take gradients"),
    "no loss": (no_loss, r"it has the size \[4\]"),
    "clipped": (clipped, "aten.clamp.default is not known to be linear"),
    "in half": (in_half, "torch.float16, whose range is too narrow"),
    "complex": (of_a_complex_number, "the result that takes a gradient is complex"),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_G44_what_cannot_be_joined_is_divided_and_says_why(name: str, joined: Any) -> None:
    function, reason = DIVIDED[name]
    call, x = joined(function), numbers(4)
    w = numbers(4, seed=1).requires_grad_()
    with pytest.warns(NotJoined, match=reason) as told:
        results = call(x, w)
    assert __file__ in str(told[0].message)
    assert told[0].filename == __file__
    results, expected = (each if isinstance(each, tuple) else (each,) for each in (results, function(x, w)))
    tangents = [2 * torch.ones_like(each) for each in expected]
    mine, theirs = (torch.autograd.grad(each, w, tangents) for each in (results, expected))
    torch.testing.assert_close(mine, theirs)
    assert roles() == ["forward", "backward"]


def test_the_same_reason_at_the_same_line_is_told_once(joined: Any) -> None:
    w = numbers(4).requires_grad_()
    with pytest.warns(NotJoined):
        joined(no_loss)(numbers(4), w)
    torch._dynamo.reset()
    joined(no_loss)(numbers(4), w)  # a second warning were an error


def test_a_scaled_loss_of_half_precision_keeps_its_small_gradients() -> None:
    w = torch.full((4,), 1e-3, requires_grad=True)

    def loss(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.float16):
            return F.linear(x, w[None]).float().square().mean() * 1e-6

    with pytest.warns(NotJoined, match="float16"):
        value = compiled(loss)(numbers(3, 4))
    mine = torch.autograd.grad(value * 2.0**20, w)
    theirs = torch.autograd.grad(loss(numbers(3, 4)) * 2.0**20, w)
    torch.testing.assert_close(mine, theirs)
    assert bool(mine[0].count_nonzero() == 4)


def test_without_the_option_forward_and_backward_are_two_graphs() -> None:
    w = numbers(4).requires_grad_()
    call = torch.compile(lambda x: (x * w).sum(), backend="air", options={"mode": "max-autotune"})
    call(numbers(4)).backward()
    assert roles() == ["forward", "backward"]


def test_a_compilation_that_is_kept_knows_how_it_was_divided(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    w = numbers(4).requires_grad_()

    def loss(x: Tensor) -> Tensor:
        return (x * w).square().sum()

    for joint, expected in ((True, "joint"), (False, "forward"), (True, "joint")):
        torch._dynamo.reset()
        options: dict[str, Any] = {
            "mode": "max-autotune",
            "air.cache.save": True,
            **dict.fromkeys(JOINT, joint),
        }
        value = torch.compile(loss, backend="air", options=options)(numbers(4))
        torch.testing.assert_close(
            torch.autograd.grad(3 * value, w), torch.autograd.grad(3 * loss(numbers(4)), w)
        )
        assert roles()[0] == expected
    assert torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"] >= 1
