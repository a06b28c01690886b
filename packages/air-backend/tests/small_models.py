"""Small models of four columns, for scripts that call them in many ways: each has results of another kind."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812


class Dense(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.last(F.gelu(self.norm(self.first(x))))
        return result


class Statistics(nn.Module):
    """Its buffers are written by every call in training."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.seen.add_(x.detach().mean(0))
        y = self.norm(self.layer(x))
        return y.relu(), y.sum()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(4, 12), nn.Linear(4, 4, bias=False)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        q, k, v = self.qkv(x).chunk(3, -1)
        seen = F.scaled_dot_product_attention(q[None], k[None], v[None])[0]
        return {"out": self.out(seen), "key": k}


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(self.layer(x).tanh(), 0.4, self.training)


class Views(nn.Module):
    """Gives its argument, a view of it, and a view of a value of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x * self.weight
        return x, x.t(), y[1:]


class Broken(nn.Module):
    """Two graphs, with Python of the caller's between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).sin()
        torch._dynamo.graph_break()
        result: Tensor = self.last(y) * y
        return result


class Writing(nn.Module):
    """Writes its argument, and gives it back."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.layer(x)
        return x.mul_(0.5), y + x


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Conv1d(1, 4, 3, padding=1), nn.GroupNorm(2, 4)

    def forward(self, x: Tensor) -> list[Tensor]:
        y = self.norm(self.layer(x[:, None]))
        return [F.silu(y).mean(1), y.amax(-1)]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x)
        for step in (x, x.flip(0), x * 0.5):
            state = self.cell(step, state)
        return state


class Cached(nn.Module):
    """Puts its rows into a buffer and reads the buffer."""

    kept: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("kept", torch.zeros(5, 4))

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        self.kept.index_copy_(0, torch.arange(x.shape[0], device=x.device), y.detach().to(self.kept.dtype))
        result: Tensor = y @ self.kept.t() @ self.kept
        return result


Chosen = namedtuple("Chosen", ["values", "places", "rows"])


class Choosing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(4, 3), nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Chosen:
        values, places = self.gate(x).softmax(-1).topk(2)
        every = torch.stack([expert(x) for expert in self.experts], 1)
        rows = every.gather(1, places[..., None].expand(-1, -1, 4)) * values[..., None]
        return Chosen(values, places, rows.sum(1))


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, by: float) -> Tensor:
        return x * by

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.by = inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.by * 2, None


class OwnGradient(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = Scaled.apply(self.layer(x), 3.0).cos()  # type: ignore[no-untyped-call]
        return result


MODELS: Final[tuple[type[nn.Module], ...]] = (
    Dense, Statistics, Attention, Dropping, Views, Broken, Writing, Convolved, Recurrent, Cached, Choosing, OwnGradient,
)  # fmt: skip
