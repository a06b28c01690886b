"""`generate` of transformers with a static cache: compiled on every ground, and captured once for all requests."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from torch._dynamo.utils import counters

from air_backend.doctor._checks import COMPILE_EVERYWHERE, check_transformers

REQUESTS = 4


def model_on(device: str) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2, vocab_size=64,
        num_hidden_layers=1, max_position_embeddings=64, pad_token_id=0, eos_token_id=None, bos_token_id=1,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).to(device).eval()


def compiled_by_air(**options: Any) -> Any:
    """With options of AIR, which names its mode there: torch.compile takes no mode beside options."""
    options = {"mode": "reduce-overhead", **options}
    config = transformers.CompileConfig(backend="air", mode=None, options=options)
    setattr(config, COMPILE_EVERYWHERE, True)
    return config


def prompts(device: str, rows: int = 2) -> list[Tensor]:
    """The longest first: transformers makes no cache shorter than the last."""
    torch.manual_seed(1)
    return [torch.randint(1, 64, (rows, 11 - 2 * number)).to(device) for number in range(REQUESTS)]


@pytest.mark.parametrize("cache", ["of generate", "of the caller", "kept and reset"])
def test_N25_requests_with_a_static_cache_are_captured_once_and_give_eager_s_tokens(
    device: str, cache: str
) -> None:
    model = model_on(device)
    wanted = {"max_new_tokens": 8, "do_sample": False}
    kept = transformers.StaticCache(config=model.config, max_cache_len=32)
    counters["air"].clear()
    for prompt in prompts(device):
        expected = model.generate(prompt, **wanted)
        given: dict[str, Any] = {"cache_implementation": "static"}
        if cache == "of the caller":
            given = {"past_key_values": transformers.StaticCache(config=model.config, max_cache_len=32)}
        elif cache == "kept and reset":
            kept.reset()
            given = {"past_key_values": kept}
        found = model.generate(prompt, **wanted, **given, compile_config=compiled_by_air())
        assert torch.equal(found, expected)
    assert counters["air"]["recaptures"] == 0
    assert counters["air"]["captures"] == counters["air"]["graphs"]
    assert counters["air"]["replays"] >= 6 * REQUESTS


def test_N25_caches_that_take_over_the_memory_of_the_capture_are_not_copied(device: str) -> None:
    model = model_on(device)
    wanted = {"max_new_tokens": 8, "do_sample": False}
    told = {"cache_implementation": "static", "compile_config": compiled_by_air(**{"air.adopt_inputs": True})}
    counters["air"].clear()
    for prompt in prompts(device):
        assert torch.equal(model.generate(prompt, **wanted, **told), model.generate(prompt, **wanted))
    copied_per_call = counters["air"]["copied_bytes"] / counters["air"]["replays"]
    assert counters["air"]["captures"] == counters["air"]["graphs"]
    assert counters["air"]["adopted_inputs"] >= 2 * (REQUESTS - 1)
    assert copied_per_call < 1000, "the numbers of a step; the cache has thousands of bytes"


def test_the_doctor_says_that_generate_has_to_be_told() -> None:
    assert hasattr(transformers.CompileConfig(), COMPILE_EVERYWHERE)
    assert f"compile_config.{COMPILE_EVERYWHERE} = True" in check_transformers().seen
