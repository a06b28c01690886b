"""Optimizers whose step is one function, against the CPU."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.npu

FUSED: dict[str, tuple[type[torch.optim.Optimizer], dict[str, object]]] = {
    "AdamW": (torch.optim.AdamW, {"lr": 0.05, "weight_decay": 0.1}),
    "AdamW that keeps the largest": (torch.optim.AdamW, {"lr": 0.05, "amsgrad": True}),
    "AdamW uphill": (torch.optim.AdamW, {"lr": 0.05, "maximize": True}),
    "SGD": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "SGD of Nesterov": (
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    ),
}


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_step_is_that_of_the_cpu(name: str) -> None:
    kind, settings = FUSED[name]

    def learned(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).to(device)
        optimizer = kind(model.parameters(), fused=device == "npu", **settings)  # type: ignore[call-arg]  # all of them have it
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(3, 4).to(device)).pow(2).sum().backward()
            optimizer.step()
        return [parameter.detach().cpu() for parameter in model.parameters()]

    torch.testing.assert_close(learned("npu"), learned("cpu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.complex64])
def test_the_sign_of_a_complex_number_is_its_direction(dtype: torch.dtype) -> None:
    x = (torch.randn(5, dtype=torch.complex64) * 3).to(dtype)
    torch.testing.assert_close(x.npu().sgn().cpu(), x.sgn())
