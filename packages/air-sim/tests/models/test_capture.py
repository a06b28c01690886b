"""One step of every model is captured once by torch.npu.NPUGraph and replayed with other inputs.

For the models that decode, the step is one token against a static key-value cache whose earlier positions were filled
before; replays continue the sequence by copying the token and its position into the captured inputs.  T5 and Whisper
attend to what their encoder gave before the capture, through the cache that the prompt has filled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

pytest.importorskip("torch_npu", exc_type=ImportError)
pytest.importorskip("transformers")

from tiny import MODELS, Tiny, tokens
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

CAUSAL = ("llama", "qwen2", "qwen3", "mixtral", "deepseek_v3", "gpt2")
ENCODER_DECODER = ("t5", "whisper")
# Routing to experts reads how many tokens each one got; the batched form keeps that on the device.
EXPERTS = {"mixtral": "batched_mm", "deepseek_v3": "batched_mm"}
PROMPT, STEPS, LENGTH = 5, 3, 8
Step = Callable[..., torch.Tensor]


def network_of(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    network = MODELS[name].build().eval()
    if name in EXPERTS:
        network.set_experts_implementation(EXPERTS[name])
    return network


def capture_of(step: Callable[[], torch.Tensor], again: Callable[[], None]) -> tuple[Any, torch.Tensor]:
    """A graph of the step and its output; `again` takes back what running it once before has changed."""
    side = torch.npu.Stream()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        step()
    torch.npu.current_stream().wait_stream(side)
    again()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        out = step()
    again()
    return graph, out


def decode(
    step: Step, cache: StaticCache, following: list[torch.Tensor], expected: list[torch.Tensor]
) -> None:
    """Captures one step at the end of the prompt, and replays it for every token that follows."""
    token, position = following[0].npu(), torch.full((2, 1), PROMPT).npu()
    mask = torch.zeros(2, 1, 1, LENGTH, dtype=torch.bool).npu()
    mask[..., : PROMPT + 1] = True
    known = [layer for layer in cache.layers if hasattr(layer, "cumulative_length")]
    lengths = [layer.cumulative_length.clone() for layer in known]

    def rewind() -> None:
        for layer, length in zip(known, lengths, strict=True):
            layer.cumulative_length.copy_(length)

    graph, out = capture_of(lambda: step(token, mask, position), rewind)
    for i, wanted in enumerate(expected):
        token.copy_(following[i])
        position.fill_(PROMPT + i)
        mask[..., PROMPT + i] = True
        graph.replay()
        torch.testing.assert_close(out.cpu(), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", CAUSAL)
def test_a_decode_step_is_captured_and_replayed(name: str) -> None:
    network, prompt = network_of(name), tokens(PROMPT)
    following = [tokens(1) for _ in range(STEPS)]
    with torch.no_grad():
        expected = [network(torch.cat([prompt, *following[: i + 1]], 1)).logits[:, -1] for i in range(STEPS)]
        network = network.npu()
        cache = StaticCache(config=network.config, max_cache_len=LENGTH)
        network(prompt.npu(), past_key_values=cache, use_cache=True)

        def step(token: torch.Tensor, mask: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
            state = {"past_key_values": cache, "use_cache": True}
            return network(token, attention_mask=mask, position_ids=position, **state).logits[:, -1]

        decode(step, cache, following, expected)


@pytest.mark.parametrize("name", ENCODER_DECODER)
def test_a_decode_step_beside_an_encoder_is_captured_and_replayed(name: str) -> None:
    network, prompt = network_of(name), tokens(PROMPT)
    following = [tokens(1) for _ in range(STEPS)]
    encoded_from = next(iter(MODELS[name].inputs().values()))
    with torch.no_grad():
        expected = [
            network(encoded_from, decoder_input_ids=torch.cat([prompt, *following[: i + 1]], 1)).logits[:, -1]
            for i in range(STEPS)
        ]
        network = network.npu()
        encoded = network.get_encoder()(encoded_from.npu())
        own = StaticCache(config=network.config, max_cache_len=LENGTH)
        cache = EncoderDecoderCache(own, DynamicCache(config=network.config))
        network(
            encoder_outputs=encoded, decoder_input_ids=prompt.npu(), past_key_values=cache, use_cache=True
        )

        def step(token: torch.Tensor, mask: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
            place = {"decoder_position_ids": position} if name == "whisper" else {}
            state = {"encoder_outputs": encoded, "past_key_values": cache, "use_cache": True}
            return network(decoder_input_ids=token, decoder_attention_mask=mask, **place, **state).logits[
                :, -1
            ]

        decode(step, own, following, expected)


@pytest.mark.parametrize("name", ["bert", "vit", "t5", "whisper"])
def test_a_forward_step_is_captured_and_replayed(name: str) -> None:
    model: Tiny = MODELS[name]
    network = network_of(name)
    first, second = model.inputs(), model.inputs()
    with torch.no_grad():
        expected = [network(**inputs)[0] for inputs in (first, second)]
        network = network.npu()
        static = {key: value.npu() for key, value in first.items()}
        graph, out = capture_of(lambda: network(**static)[0], lambda: None)
        for inputs, wanted in zip((first, second), expected, strict=True):
            for key, value in inputs.items():
                static[key].copy_(value)
            graph.replay()
            torch.testing.assert_close(out.cpu(), wanted, atol=1e-4, rtol=1e-4)
