"""Query, key and value at the same time: `air.products_side_by_side` in compiled models."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from air_backend import _records

DIM, ROWS = 32, 2


class Layers(nn.Module):
    """A step of attention over a cache that it writes, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.products = nn.ModuleList(nn.Linear(DIM, DIM, bias=at % 3 == 2) for at in range(6))
        self.register_buffer("cache", torch.zeros(2, 2, ROWS, 8, DIM))

    cache: Tensor

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        for layer in range(2):
            y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
            query, key, value = (self.products[3 * layer + i](y) for i in range(3))
            keys, values = self.cache[layer]
            keys.index_copy_(1, at, key[:, None])
            values.index_copy_(1, at, value[:, None])
            scores = torch.bmm(query[:, None], keys.transpose(1, 2)).softmax(-1)
            x = functional.silu(x + torch.bmm(scores, values)[:, 0])
        return x


def on_streams(options: dict[str, Any], device: str, calls: int = 8) -> int:
    """How many streams the compiled model uses; its results and caches are eager's in every call."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Layers().eval().requires_grad_(False).to(device)
    eager = copy.deepcopy(model)
    step = torch.compile(model, backend="air", options={"mode": "reduce-overhead", **options}, fullgraph=True)
    for call in range(calls):
        x, at = torch.randn(ROWS, DIM, device=device), torch.tensor([call], device=device)
        torch.testing.assert_close(step(x, at), eager(x, at))
        torch.testing.assert_close(model.cache, eager.cache)
    (record, _), *_ = _records.alive()
    return len(record.plan.resources.streams)


def test_query_key_and_value_are_on_three_streams_in_both_layers(device: str) -> None:
    assert on_streams({"air.products_side_by_side": True}, device) == 3


def test_they_are_on_one_where_nobody_asks(device: str) -> None:
    assert on_streams({}, device) <= 1


def test_caches_are_written_where_they_are(device: str) -> None:
    on_streams({"air.products_side_by_side": True}, device)
    (record, _), *_ = _records.alive()
    names = list(record.targets.values())
    assert sum("index_copy_" in name for name in names) == 4
    assert not [name for name in names if "index_copy.default" in name or name == "aten.copy_.default"]


@pytest.mark.parametrize("sync", ["error", "auto"])
def test_nothing_is_missing_for_a_check_of_the_streams(device: str, sync: str) -> None:
    assert on_streams({"air.products_side_by_side": True, "air.sync": sync}, device) == 3


def test_generated_kernels_stand_between_the_products() -> None:
    assert on_streams({"air.products_side_by_side": True, "air.kernels": "inductor"}, "cpu") == 3
    (_, run), *_ = _records.alive()
    fused = run.explain()["fused"]
    assert len(fused["regions"]) >= 3
    stayed = {row["operator"]: row["reason"] for row in fused["stayed ATen"]}
    assert not [name for name in stayed if "air_streams" in name]
    assert stayed["aten.mm.default"] == "alone: there is nothing to fuse it with"


@pytest.mark.accelerator
@pytest.mark.skipif(not torch.cuda.is_available(), reason="Inductor generates kernels for a CUDA device")
def test_generated_kernels_stand_between_the_products_on_a_gpu() -> None:
    assert on_streams({"air.products_side_by_side": True, "air.kernels": "inductor"}, "cuda") == 3


def random_step(source: random.Random) -> nn.Module:
    """Products of values at hand, what is computed of them, and writes into a buffer and into values."""

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.products = nn.ModuleList(nn.Linear(8, 8, bias=at == 2) for at in range(4))
            self.register_buffer("memory", torch.zeros(ROWS, 8))

        memory: Tensor

        def forward(self, x: Tensor) -> Tensor:
            values = [x.relu()]
            for kind, one, other in steps:
                a, b = values[int(one * len(values))], values[int(other * len(values))]
                if kind == "p":
                    values += [product(a) for product in self.products[: 2 + int(3 * other)]]
                elif kind == "c":
                    values.append((a + b).sin() * self.memory)
                elif kind == "w":
                    self.memory.copy_(a)
                else:
                    a.mul_(0.5)
            return torch.stack(values).sum(0)

    steps = [(source.choice("ppccwm"), source.random(), source.random()) for _ in range(source.randint(3, 9))]
    return Step()


@pytest.mark.npu("air-sim delays what the device does")
@pytest.mark.usefixtures("in_order_again")
@pytest.mark.parametrize("programs", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_random_steps_are_eager_whatever_the_streams_delay(programs: int) -> None:
    import air_sim

    streams = 0
    for seed in range(programs):
        source = random.Random(seed)
        torch._dynamo.reset()
        torch.manual_seed(seed)
        step = random_step(source).eval().requires_grad_(False).to("npu")
        eager = copy.deepcopy(step).cpu()
        options: Any = {"mode": "reduce-overhead", "air.products_side_by_side": True}
        compiled = torch.compile(step, backend="air", options=options, fullgraph=True)
        air_sim.change(
            seed=seed + 1, delay_us=source.choice((0, 200, 1_000)), launch_delay_us=source.choice((0, 50))
        )
        for _ in range(4):
            x = torch.randn(ROWS, 8)
            assert torch.allclose(compiled(x.to("npu")).cpu(), eager(x), rtol=1e-5, atol=1e-5), (
                f"program {seed}"
            )
            torch.testing.assert_close(step.memory.cpu(), eager.memory)
        (record, _), *_ = _records.alive()
        streams += record.plan.is_multi_stream
    assert streams > programs / 3
