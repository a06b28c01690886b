"""Small programs and the calls that are made of them, for judges that let something fail in the middle."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Called:
    """A function, and what makes the arguments of each call: always the same ones."""

    function: Callable[..., Any]
    calls: Sequence[Callable[[], Arguments]]
    leaves: tuple[Tensor, ...] = ()
    """What gets gradients."""

    def seen(self, run: Callable[..., Any], number: int) -> Any:
        """What a caller has after a call, on the CPU: results, gradients and arguments."""
        args = self.calls[number]()
        torch.manual_seed(7)
        with torch.set_grad_enabled(bool(self.leaves)):
            results = run(*args)
            gradients = torch.autograd.grad(results.square().sum(), self.leaves) if self.leaves else ()
        return tree_map_only(Tensor, lambda x: x.detach().cpu(), (results, gradients, args))

    def steps(self, run: Callable[..., Any]) -> list[Callable[[], object]]:
        """The calls, and what follows when the last one is done."""
        return [*(partial(self.seen, run, number) for number in range(len(self.calls))), _ended]

    def wrong(self, run: Callable[..., Any], number: int, expected: Any) -> str:
        """What a call gives otherwise, or raises; empty where all is as expected."""
        try:
            torch.testing.assert_close(self.seen(run, number), expected, rtol=1e-3, atol=1e-3)
        except AssertionError as wrong:
            return f"call {number} is wrong: {wrong}"
        except Exception as error:
            return f"call {number} raises {type(error).__name__}: {error}"
        return ""


def compiled(called: Called, mode: str) -> Any:
    torch._dynamo.reset()
    return torch.compile(called.function, backend="air", options={"mode": mode})


def _ended() -> None:
    torch._dynamo.reset()
    gc.collect()


def _drawn(device: str, seed: int, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=source).to(dtype).to(device)


def _drawn_each(device: str, *shapes: tuple[int, ...]) -> list[Callable[[], Arguments]]:
    def given(seed: int, shape: tuple[int, ...]) -> Arguments:
        return (_drawn(device, seed, *shape),)

    return [partial(given, seed, shape) for seed, shape in enumerate(shapes)]


def layers(device: str) -> Called:
    """A model without gradients, called with two sizes."""
    torch.manual_seed(0)
    parts = nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.LayerNorm(16)
    model = nn.Sequential(*parts).to(device).eval().requires_grad_(False)
    return Called(
        lambda x: (model(x) + x, x.sum(-1)), _drawn_each(device, (4, 16), (4, 16), (6, 16), (4, 16))
    )


def cache(device: str) -> Called:
    """Arguments that are written, and a result that is a view of one."""

    def step(kept: Tensor, x: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        kept.index_copy_(0, places, x)
        total = (kept * 2).sum(0)
        kept.mul_(1.5)
        return total, kept[1:3]

    def given(number: int) -> Arguments:
        places = torch.tensor([number, (number + 3) % 8]).to(device)
        return _drawn(device, 0, 8, 4), _drawn(device, number, 2, 4), places

    return Called(step, [partial(given, number) for number in range(4)])


def pieces(device: str) -> Called:
    """A size that depends on data cuts the graph."""

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2 + 1
        kept = y[y > 0]
        return kept * 3, y - kept.sum()

    return Called(step, _drawn_each(device, *[(4, 5)] * 4))


def training(device: str) -> Called:
    """A model with gradients."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)).to(device)
    return Called(lambda x: model(x), _drawn_each(device, *[(4, 16)] * 4), tuple(model.parameters()))


def dropped(device: str) -> Called:
    """Random numbers."""
    return Called(lambda x: F.dropout(x, 0.5) + torch.rand_like(x), _drawn_each(device, *[(4, 5)] * 3))


def streams(device: str) -> Called:
    """Work on a second stream of the device."""
    npu = torch.get_device_module("npu")
    side = npu.Stream()

    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        product = x @ x
        side.wait_stream(npu.current_stream())
        with npu.stream(side):
            other = (x * 2).relu()
        npu.current_stream().wait_stream(side)
        return product + 1, other + 1

    return Called(step, _drawn_each(device, *[(4, 4)] * 3))


def lengths(device: str) -> Called:
    """Attention whose lengths change in each call, and are patched."""

    def step(q: Tensor, k: Tensor, v: Tensor, known: list[int]) -> Tensor:
        result: Tensor = torch.ops.npu.npu_fused_infer_attention_score(
            q * 1.0, k, v, actual_seq_lengths_kv=known, num_heads=2, input_layout="BSH", scale=0.5
        )[0]
        return result + 1

    def given(known: int) -> Arguments:
        half = torch.float16
        q, k, v = (_drawn(device, n, 2, size, 32, dtype=half) for n, size in enumerate((1, 8, 8)))
        return q, k, v, [known, known + 1]

    return Called(step, [partial(given, known) for known in (3, 4, 5, 3)])


ANYWHERE = {made.__name__: made for made in (layers, cache, pieces, training, dropped)}
ON_NPU = {made.__name__: made for made in (streams, lengths)}
