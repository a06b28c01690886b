"""Decoding with a model of transformers and a cache of fixed size: `generate`, and a loop of our own.

    python examples/llm_decode/llm_decode.py

The model is a Llama of random weights that fits into a second. Put `from_pretrained` in place of `tiny_llama` and move
model and prompt to the device; nothing else changes.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor
from torch._dynamo.utils import counters

from air_backend import CompilerConfig, get_npu_backend

NEW = 8  # tokens to add to each prompt
LENGTH = 32  # rows of the cache


def tiny_llama() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=64,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config).eval()


def with_generate(model: Any, prompt: Tensor) -> Tensor:
    """transformers compiles the decode step by itself when it gets a static cache and a `compile_config`."""
    how = transformers.CompileConfig(backend="air", mode="reduce-overhead")
    how._compile_all_devices = True  # else transformers compiles on CUDA alone
    return model.generate(
        prompt, max_new_tokens=NEW, do_sample=False, cache_implementation="static", compile_config=how
    )


def by_hand(model: Any, prompt: Tensor) -> Tensor:
    """The same loop, written out: the prompt in eager, then one compiled step per token."""
    config = CompilerConfig()
    config.mode = "reduce-overhead"

    def one_token(token: Tensor, place: Tensor, cache: Any) -> Tensor:
        out = model(token, position_ids=place[None], cache_position=place, past_key_values=cache)
        return out.logits[:, -1].argmax(-1, keepdim=True)

    step = torch.compile(one_token, backend=get_npu_backend(compiler_config=config), fullgraph=True)
    cache = transformers.StaticCache(config=model.config, max_cache_len=LENGTH)
    tokens = [prompt, model(prompt, past_key_values=cache).logits[:, -1].argmax(-1, keepdim=True)]
    for at in range(prompt.shape[1], prompt.shape[1] + NEW - 1):
        # a tensor, not a number: every step is the same graph
        tokens.append(step(tokens[-1], torch.tensor([at]), cache).clone())
    return torch.cat(tokens, 1)


def main() -> None:
    model = tiny_llama()
    with torch.no_grad():
        for way in (with_generate, by_hand):
            torch._dynamo.reset()
            counters["air"].clear()
            for number in range(2):
                prompt = torch.randint(1, 64, (2, 9 - 2 * number))
                expected = model.generate(prompt, max_new_tokens=NEW, do_sample=False)
                assert torch.equal(way(model, prompt), expected)
            assert counters["air"]["replays"] > NEW
            print(f"{way.__name__}: the tokens of eager")


if __name__ == "__main__":
    main()
