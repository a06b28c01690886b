"""A decode step of a four-layer Llama on the host runtime, beside eager, aot_eager and Inductor, in one process.

python benchmarks/host_decode.py --json results.json
"""

from __future__ import annotations

import argparse
import functools
import logging
from typing import Any

import torch
import transformers
from _measure import Row, interleave, numbers, show, table, write
from hot_path import ours


def step_of(model: Any, cache: Any) -> Any:
    """One decode step with a static cache, with code objects of its own."""
    scope: dict[str, Any] = {"model": model, "cache": cache}
    exec(
        "def step(token, position):\n"
        "    return model(token, position_ids=position[None], past_key_values=cache, cache_position=position).logits",
        scope,
    )
    return scope["step"]


def main() -> None:
    """Times the four."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    torch._dynamo.config.cache_size_limit = 64
    config = transformers.LlamaConfig(
        vocab_size=1000, hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=1024,
    )  # fmt: skip
    token, position = torch.tensor([[7]]), torch.tensor([9])
    rows = []
    outputs = []
    with torch.no_grad():
        for name, backend in (
            ("eager", None),
            ("aot_eager", "aot_eager"),
            ("Inductor", "inductor"),
            ("air-aclgraph, host runtime", ours([])),
        ):
            torch.manual_seed(0)
            model: Any = transformers.LlamaForCausalLM(config)
            model.eval()
            cache = transformers.StaticCache(config=config, max_cache_len=512)
            model(torch.arange(8)[None], past_key_values=cache, cache_position=torch.arange(8))
            step = step_of(model, cache)
            call = step if backend is None else torch.compile(step, backend=backend, dynamic=False)
            for _ in range(4):
                out = call(token, position)
            outputs.append(out.clone())
            rows.append(Row(name, functools.partial(call, token, position)))
        for out in outputs[1:]:
            torch.testing.assert_close(out, outputs[0], rtol=1e-4, atol=1e-4)
        interleave(rows, rounds=arguments.rounds, burst=5)
    show(table("decode step, 4 layers, cpu", rows, (rows[0].least_us, rows[0].median_us), "base: eager"))
    write(arguments.json, {"host decode": numbers(rows)})


if __name__ == "__main__":
    main()
