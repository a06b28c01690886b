"""Training with torch.amp: the scaler's own operators, and a loop that skips a step and goes on."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.npu


@pytest.mark.parametrize("found_inf", [0.0, 1.0])
@pytest.mark.parametrize("good_steps", [0, 1])
def test_the_scale_grows_and_backs_off_as_on_the_cpu(found_inf: float, good_steps: int) -> None:
    def updated(device: str) -> list[torch.Tensor]:
        scale, tracker = torch.tensor(8.0).to(device), torch.tensor(good_steps, dtype=torch.int32).to(device)
        torch._amp_update_scale_(scale, tracker, torch.tensor(found_inf).to(device), 2.0, 0.5, 2)
        return [scale.cpu(), tracker.cpu()]

    assert updated("npu") == updated("cpu")


def trained(device: str, unscales: bool) -> tuple[list[float], list[torch.Tensor]]:
    """Scales and parameters of four steps, of which the second meets an infinity."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).to(device)
    data = [torch.randn(6, 4) for _ in range(4)]
    data[1][0, 0] = float("inf")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=2)
    scales = []
    for x in data:
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(x.to(device)).float().pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if unscales:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales, [parameter.detach().cpu() for parameter in model.parameters()]


@pytest.mark.parametrize("unscales", [False, True])
def test_a_mixed_precision_loop_scales_skips_and_learns_as_on_the_cpu(unscales: bool) -> None:
    scales, parameters = trained("npu", unscales)
    expected_scales, expected = trained("cpu", unscales)
    assert scales == expected_scales
    assert scales[1] < 1024.0
    torch.testing.assert_close(parameters, expected, atol=2e-2, rtol=2e-2)
