"""`generate` of a Llama of transformers on a CUDA device: what a token takes, and the first request.

    python gpu_generate.py --json results.json

Every way has a model of its own, of the same weights, and is timed in turn; greedily. How many tokens are eager's is
told: the best two of a random model can be so near that rounding decides. The static cache is compiled by transformers
itself: `Inductor` is what it does when it is told nothing (reduce-overhead).
"""

from __future__ import annotations

import logging
import statistics
import time
from typing import Any

import torch
import transformers
from _gpu import begin, show, write
from gpu_models import llama

AIR = {"backend": "air", "dynamic": False}
WAYS: dict[str, dict[str, Any] | None] = {
    "eager": None,
    "Inductor": {},
    "AIR, kernels of ATen": {**AIR, "options": {"mode": "reduce-overhead"}},
    "AIR, kernels of Inductor": {**AIR, "options": {"mode": "reduce-overhead", "air.kernels": "inductor"}},
}


def compiling(way: dict[str, Any] | None) -> dict[str, Any]:
    """What `generate` is given for a way."""
    if way is None:
        return {}
    given: dict[str, Any] = {"cache_implementation": "static"}
    if way:
        config = transformers.CompileConfig(
            backend=way["backend"], mode=None, options=way["options"], dynamic=False
        )
        given["compile_config"] = config
    return given


def main() -> None:
    """Times each way."""
    asked = begin(__doc__, layers=16, tokens=128, prompt=32, requests=4)
    logging.disable(logging.INFO)
    prompt = torch.randint(32000, (1, asked.prompt), device="cuda")
    found: dict[str, dict[str, float]] = {}
    expected = None
    for name, way in WAYS.items():
        torch._dynamo.reset()
        torch.manual_seed(0)
        with torch.device("cuda"):
            model = llama(asked.layers).to(torch.bfloat16).eval()
        seconds = []
        for _ in range(asked.requests):
            torch.cuda.synchronize()
            start = time.perf_counter()
            ids = model.generate(
                prompt,
                max_new_tokens=asked.tokens,
                min_new_tokens=asked.tokens,
                do_sample=False,
                **compiling(way),
            )
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
        expected = ids if expected is None else expected
        found[name] = {
            "token_us": 1e6 * statistics.median(seconds[1:]) / asked.tokens,
            "first_s": seconds[0],
            "same_tokens": float((ids == expected).float().mean()),
        }
        del model
        torch.cuda.empty_cache()
    one = found["Inductor"]
    title = f"generate, {asked.layers} layers, {torch.cuda.get_device_name()}, torch {torch.__version__}"
    lines = [
        f"{name:<28}{1e6 / row['token_us']:>10.1f} tokens/s{one['token_us'] / row['token_us']:>7.2f} x Inductor's"
        f"{row['first_s']:>8.1f} s the first{100 * row['same_tokens']:>7.1f} % of eager's tokens"
        for name, row in found.items()
    ]
    show("\n".join([title, "", *lines, ""]))
    write(asked.json, {"generate": found})


if __name__ == "__main__":
    main()
