"""Every model family gives on the npu device what it gives on the CPU."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("torch_npu", exc_type=ImportError)
pytest.importorskip("transformers")

from tiny import MODELS, Tiny


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_the_model_in_eager_mode_equals_the_cpu(model: Tiny) -> None:
    torch.manual_seed(0)
    network, inputs = model.build().eval(), model.inputs()
    with torch.no_grad():
        expected = network(**inputs)[0]
        actual = network.npu()(**{name: value.npu() for name, value in inputs.items()})[0]
    torch.testing.assert_close(actual.cpu(), expected, atol=1e-4, rtol=1e-4)


def test_a_training_step_equals_the_cpu() -> None:
    torch.manual_seed(0)
    model = MODELS["llama"]
    ids = model.inputs()["input_ids"]
    losses, weights = [], []
    for device in ("cpu", "npu"):
        torch.manual_seed(1)
        network = model.build().to(device)
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
        for _ in range(2):
            optimizer.zero_grad()
            loss = network(input_ids=ids.to(device), labels=ids.to(device)).loss
            loss.backward()
            optimizer.step()
        losses.append(loss.detach().cpu())
        weights.append(network.lm_head.weight.detach().cpu())
    torch.testing.assert_close(losses[1], losses[0], atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(weights[1], weights[0], atol=1e-2, rtol=1e-2)
