"""One step of every model is captured once by torch.npu.NPUGraph and replayed with other inputs.

For the models that decode, the step is one token against a static key-value cache whose earlier positions were filled
before; replays continue the sequence by copying the token and its position into the captured inputs.
"""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("torch_npu", exc_type=ImportError)
pytest.importorskip("transformers")

from tiny import MODELS, Tiny, tokens
from transformers import StaticCache

CAUSAL = ("llama", "qwen2", "qwen3", "mixtral", "deepseek_v3", "gpt2")
# Routing to experts reads how many tokens each one got; the batched form keeps that on the device.
EXPERTS = {"mixtral": "batched_mm", "deepseek_v3": "batched_mm"}


def network_of(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    network = MODELS[name].build().eval()
    if name in EXPERTS:
        network.set_experts_implementation(EXPERTS[name])
    return network


@pytest.mark.parametrize("name", CAUSAL)
def test_a_decode_step_is_captured_and_replayed(name: str) -> None:
    network, prompt, length = network_of(name), tokens(5), 8
    following = [tokens(1) for _ in range(3)]
    with torch.no_grad():
        expected = [
            network(torch.cat([prompt, *following[: i + 1]], 1)).logits[:, -1] for i in range(len(following))
        ]
        network = network.npu()
        cache = StaticCache(config=network.config, max_cache_len=length)
        network(prompt.npu(), past_key_values=cache, use_cache=True)

        token, position = following[0].npu(), torch.tensor([[5], [5]]).npu()
        mask = torch.zeros(2, 1, 1, length, dtype=torch.bool).npu()
        mask[..., :6] = True

        def step() -> torch.Tensor:
            logits = network(
                token, attention_mask=mask, position_ids=position, past_key_values=cache, use_cache=True
            ).logits
            return logits[:, -1]

        lengths = [
            layer.cumulative_length.clone() for layer in cache.layers if hasattr(layer, "cumulative_length")
        ]
        side = torch.npu.Stream()
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            step()
        torch.npu.current_stream().wait_stream(side)
        rewind(cache, lengths)
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            out = step()
        rewind(cache, lengths)
        for i, wanted in enumerate(expected):
            token.copy_(following[i])
            position.fill_(5 + i)
            mask[..., 5 + i] = True
            graph.replay()
            torch.testing.assert_close(out.cpu(), wanted, atol=1e-4, rtol=1e-4)


def rewind(cache: StaticCache, lengths: list[torch.Tensor]) -> None:
    """Takes back the token that a warm-up wrote: the next step writes at the same position."""
    known = [layer for layer in cache.layers if hasattr(layer, "cumulative_length")]
    for layer, length in zip(known, lengths, strict=True):
        layer.cumulative_length.copy_(length)


@pytest.mark.parametrize("name", ["bert", "vit", "t5", "whisper"])
def test_a_forward_step_is_captured_and_replayed(name: str) -> None:
    model: Tiny = MODELS[name]
    network = network_of(name)
    first, second = model.inputs(), model.inputs()
    with torch.no_grad():
        expected = [network(**inputs)[0] for inputs in (first, second)]
        network = network.npu()
        static = {key: value.npu() for key, value in first.items()}
        side = torch.npu.Stream()
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            network(**static)
        torch.npu.current_stream().wait_stream(side)
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            out = network(**static)[0]
        for inputs, wanted in zip((first, second), expected, strict=True):
            for key, value in inputs.items():
                static[key].copy_(value)
            graph.replay()
            torch.testing.assert_close(out.cpu(), wanted, atol=1e-4, rtol=1e-4)
