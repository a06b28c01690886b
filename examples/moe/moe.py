"""A model with experts: the router decides in every step anew, and all steps are one graph.

    python examples/moe/moe.py

Which expert a token goes to is data. A graph that reads it on the host is cut there; one that multiplies groups of rows
on the device is captured whole. `explain` says which of the two you have.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor
from torch._dynamo.utils import counters

from air_backend import CompilerConfig, explain, get_npu_backend

STEPS = 6


def tiny_mixtral() -> Any:
    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        vocab_size=64,
        max_position_embeddings=32,
    )
    return transformers.MixtralForCausalLM(config).eval()


def decoded(call: Any, model: Any, prompt: Tensor) -> Tensor:
    """The logits of some steps after a prompt; the words are given, so that routes differ and runs compare."""
    cache = transformers.StaticCache(config=model.config, max_cache_len=16)
    model(prompt, past_key_values=cache)
    found = []
    for at in range(prompt.shape[1], prompt.shape[1] + STEPS):
        place = torch.tensor([at])
        word = torch.full((2, 1), 7 * at % 64)
        out = call(word, position_ids=place[None], cache_position=place, past_key_values=cache)
        found.append(out.logits.clone())
    return torch.cat(found, 1)


def main() -> None:
    model = tiny_mixtral()
    prompt = torch.randint(64, (2, 5))
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    with torch.no_grad():
        expected = decoded(model, model, prompt)
        compiled = torch.compile(model, backend=get_npu_backend(compiler_config=config))
        torch.testing.assert_close(decoded(compiled, model, prompt), expected, rtol=1e-4, atol=1e-4)
        print(
            f"{STEPS} steps, {counters['air']['graphs']} graph(s), {counters['air']['recaptures']} recaptures"
        )

        torch._dynamo.reset()
        report = explain(model, torch.ones(2, 1, dtype=torch.long), use_cache=False, compiler_config=config)
        print("graph breaks:", len(report.data["graph breaks"]))


if __name__ == "__main__":
    main()
