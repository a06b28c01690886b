"""Hugging Face models with random weights, prefill and decode, through the backend in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from air_backend import CompilerConfig, get_npu_backend

SMALL: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
MODES = ("reduce-overhead", "max-autotune")


def llama(layers: int = 2) -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL | {"num_hidden_layers": layers}))


def qwen() -> Any:
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SMALL | {"num_hidden_layers": 1}))


def compiled(function: Callable[..., Any], mode: str, **settings: Any) -> Callable[..., Any]:
    config = CompilerConfig()
    config.set("mode", mode)
    made: Callable[..., Any] = torch.compile(
        function, backend=get_npu_backend(compiler_config=config), **settings
    )
    return made


def decode(call: Callable[..., Any], model: Any, tokens: Tensor, steps: int) -> list[Tensor]:
    """The logits of a prefill and of greedy steps over a cache of fixed size."""
    device = tokens.device
    cache: Any = transformers.StaticCache(config=model.config, max_cache_len=32)
    place = torch.arange(tokens.shape[1], device=device)
    logits = []
    for _ in range(steps):
        out = call(tokens, position_ids=place[None], past_key_values=cache, cache_position=place).logits[
            :, -1
        ]
        logits.append(out.clone())
        tokens, place = out.argmax(-1, keepdim=True), place[-1:] + 1
    return logits


def check(build: Callable[[], Any], mode: str, device: torch.device) -> None:
    torch.manual_seed(0)
    model = build().eval().to(device)
    tokens = torch.randint(97, (1, 6)).to(device)
    with torch.no_grad():
        ours = decode(compiled(model, mode, dynamic=False), model, tokens, 6)
        theirs = decode(model, model, tokens, 6)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=2e-4, atol=2e-4)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("build", [llama, qwen])
def test_S03_S04_prefill_and_decode_of_a_language_model_equal_eager(
    build: Callable[[], Any], mode: str
) -> None:
    check(build, mode, torch.device("cpu"))


@pytest.mark.parametrize("mode", MODES)
def test_S03_S04_prefill_and_decode_of_llama_equal_eager_on_a_device(accelerator: str, mode: str) -> None:
    check(llama, mode, torch.device(accelerator))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", MODES)
def test_S23_one_graph_serves_every_length(mode: str) -> None:
    torch.manual_seed(0)
    model = llama(layers=1).eval()
    call = compiled(model, mode, dynamic=True)
    with torch.no_grad():
        for length in (4, 9, 5, 9):
            tokens = torch.randint(97, (1, length))
            found, expected = call(tokens, use_cache=False).logits, model(tokens, use_cache=False).logits
            torch.testing.assert_close(found, expected, rtol=2e-4, atol=2e-4)
