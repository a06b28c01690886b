"""A Llama decode step with a static KV cache: the reference engine against eager torch, interleaved in one process.

python packages/air-geir/benchmarks/reference_decode.py [--layers 8] [--hidden 512] [--steps 40]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

from air_geir import compile_graph


def compiler(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
    run = compile_graph(gm, inputs, engine="reference")

    def boxed(args: list[Any]) -> Any:
        return run(*args)

    boxed._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd's mark for functions that take a list
    return boxed


def seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--steps", type=int, default=40)
    chosen = parser.parse_args()
    config = LlamaConfig(
        hidden_size=chosen.hidden, intermediate_size=4 * chosen.hidden, num_hidden_layers=chosen.layers,
        num_attention_heads=8, num_key_value_heads=8, vocab_size=1000, max_position_embeddings=256,
    )  # fmt: skip
    model: Any = LlamaForCausalLM(config).eval()
    backend = aot_autograd(
        fw_compiler=compiler, inference_compiler=compiler, keep_inference_input_mutations=True
    )
    compiled: Any = torch.compile(model, backend=backend, dynamic=False)
    caches = [StaticCache(config=config, max_cache_len=128) for _ in range(2)]
    token, at = torch.tensor([[7]]), torch.tensor([5])

    def step(run: Any, cache: StaticCache) -> Callable[[], object]:
        return lambda: run(input_ids=token, past_key_values=cache, cache_position=at).logits

    eager, ours = step(model, caches[0]), step(compiled, caches[1])
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(ours(), eager(), atol=1e-4, rtol=1e-3)
        times = [(seconds(eager), seconds(ours)) for _ in range(chosen.steps)]
    first, second = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
    print(f"eager {first:.2f} ms, reference engine {second:.2f} ms, ratio {second / first:.2f}")


if __name__ == "__main__":
    main()
