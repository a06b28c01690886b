"""Hugging Face models with random weights: prefill and decode steps equal eager, on every runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from aclgraph_backend import Backend

transformers = pytest.importorskip("transformers")

STEPS = 12
PROMPT = 5

TINY = dict(
    vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, use_cache=True,
)  # fmt: skip

ONE_LAYER = TINY | {"num_hidden_layers": 1}  # one model of two layers shows what a second layer adds

DECODERS: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**TINY)),
    "qwen2": lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**ONE_LAYER)),
    "mixtral": lambda: transformers.MixtralForCausalLM(
        transformers.MixtralConfig(**ONE_LAYER, num_local_experts=4, num_experts_per_tok=2)
    ),
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=97, n_embd=32, n_layer=1, n_head=4, n_positions=64)
    ),
}


def decoder(name: str, device: str) -> Any:
    torch.manual_seed(0)
    model = DECODERS[name]().eval().to(device)
    model.config._attn_implementation = "eager"
    if name == "mixtral":
        model.config._experts_implementation = "batched_mm"  # the grouped loop reads counts on the host
    return model


def growing_step(model: Any) -> Callable[..., Any]:
    """One step as a function of the cache's tensors: the cache grows by concatenation."""

    def step(tokens: torch.Tensor, positions: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        cache = transformers.DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        out = model(input_ids=tokens, position_ids=positions, past_key_values=cache, use_cache=True)
        grown = [t for layer in out.past_key_values.layers for t in (layer.keys, layer.values)]
        return (out.logits, *grown)

    return step


def decode(step: Callable[..., Any], device: str, marked: bool = False) -> list[torch.Tensor]:
    """Prefill, then greedy steps; the logits of each. The length of the cache may be marked as one that changes."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 97, (1, PROMPT), generator=generator).to(device)
    positions = torch.arange(PROMPT, device=device).unsqueeze(0)
    logits, *past = step(tokens, positions)
    collected = [logits.clone()]
    past = [t.clone() for t in past]
    for number in range(STEPS):
        token = logits[:, -1:].argmax(-1)
        position = torch.full((1, 1), PROMPT + number, device=device)
        for tensor in past if marked else ():
            torch._dynamo.mark_dynamic(tensor, 2)
        logits, *past = step(token, position, *past)
        collected.append(logits.clone())
        past = [t.clone() for t in past]
    return collected


#: A graph for every length is compiled in the last case, and `dynamic=True` makes many more symbols than the one that
#: is marked: more than CI has time for.
SHAPES = [
    pytest.param(None, id="marked"),
    pytest.param(True, id="dynamic", marks=pytest.mark.slow),
    pytest.param(False, id="static", marks=pytest.mark.slow),
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dynamic", SHAPES)
@pytest.mark.parametrize("name", list(DECODERS))
def test_decoding_with_a_growing_cache_equals_eager(name: str, dynamic: bool | None, device: str) -> None:
    model = decoder(name, device)
    step = growing_step(model)
    backend = Backend(device)
    compiled = torch.compile(step, backend=backend, dynamic=dynamic, fullgraph=True)
    with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=STEPS + 4):
        expected = decode(step, device)
        found = decode(compiled, device, marked=dynamic is None)
    for e, f in zip(expected, found, strict=True):
        torch.testing.assert_close(f, e, rtol=2e-4, atol=2e-4)
    assert sum(e.stats()["captures"] for e in backend.executables) >= STEPS


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", list(DECODERS))
def test_decoding_with_a_static_cache_captures_once_and_equals_eager(name: str, device: str) -> None:
    model = decoder(name, device)

    def run(forward: Callable[..., Any]) -> list[torch.Tensor]:
        cache = transformers.StaticCache(config=model.config, max_cache_len=32)
        generator = torch.Generator().manual_seed(1)
        tokens = torch.randint(0, 97, (1, PROMPT), generator=generator).to(device)
        out = model(tokens, past_key_values=cache, cache_position=torch.arange(PROMPT, device=device))
        collected = [out.logits.clone()]
        for number in range(STEPS):
            token = collected[-1][:, -1:].argmax(-1)
            position = torch.tensor([PROMPT + number], device=device)
            logits = forward(token, position, cache)
            collected.append(logits.clone())
        return collected

    def forward(token: torch.Tensor, position: torch.Tensor, cache: Any) -> torch.Tensor:
        out: torch.Tensor = model(
            token, position_ids=position.unsqueeze(0), past_key_values=cache, cache_position=position
        ).logits
        return out

    backend = Backend(device)
    with torch.no_grad():
        expected = run(forward)
        found = run(torch.compile(forward, backend=backend, dynamic=False))
    for e, f in zip(expected, found, strict=True):
        torch.testing.assert_close(f, e, rtol=2e-4, atol=2e-4)
    total = [e.stats() for e in backend.executables]
    assert sum(s["captures"] for s in total) <= 3
    assert sum(s["replays"] for s in total) >= STEPS - 3


@pytest.mark.parametrize("dynamic", SHAPES)
def test_an_encoder_of_several_lengths_equals_eager(dynamic: bool | None, device: str) -> None:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=97, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=64, attn_implementation="eager",
    )  # fmt: skip
    model: Any = transformers.BertModel(config)
    model.eval().to(device)
    backend = Backend(device)
    compiled: Any = torch.compile(model, backend=backend, dynamic=dynamic)
    with torch.no_grad():
        for length in (4, 9, 16, 9, 4, 16):
            tokens = torch.randint(0, 97, (2, length)).to(device)
            mask = torch.ones_like(tokens)
            for tensor in (tokens, mask) if dynamic is None else ():
                torch._dynamo.mark_dynamic(tensor, 1)
            expected = model(tokens, attention_mask=mask).last_hidden_state
            found = compiled(tokens, attention_mask=mask).last_hidden_state
            torch.testing.assert_close(found, expected, rtol=2e-4, atol=2e-4)
    assert sum(e.stats()["replays"] for e in backend.executables) >= 3
