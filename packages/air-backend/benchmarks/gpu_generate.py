"""`generate` of a Llama of transformers on a CUDA device: what a request takes.

    python gpu_generate.py --json results.json

Every way has a model of its own, of the same weights, and is timed in turn; greedily. How many tokens are eager's is
told: the best two of a random model can be so near that rounding decides. The static cache is compiled by transformers
itself: `Inductor` is what it does when it is told nothing (reduce-overhead).
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any, Final

import torch
import transformers
from _gpu import COMPILED, Timed, begin, interleave, show, table, write
from gpu_models import llama
from torch import Tensor

ADOPTING: Final = "AIR, kernels of Inductor, caches adopted"
SIDE_BY_SIDE: Final = "AIR, kernels of Inductor, caches adopted, products side by side"
WAYS: Final = (
    "eager", "Inductor", "AIR, kernels of ATen", "AIR, kernels of Inductor", ADOPTING, SIDE_BY_SIDE,
)  # fmt: skip
Request = Callable[[Tensor], Tensor]


def given(way: str) -> dict[str, Any]:
    """What `generate` is told for a way."""
    if way == "eager":
        return {}
    if way == "Inductor":
        return {"cache_implementation": "static"}
    name, *asked = way.split(", caches adopted")
    compiled = copy.deepcopy(COMPILED[name])
    if asked:
        compiled["options"]["air.adopt_inputs"] = True
    if way == SIDE_BY_SIDE:
        compiled["options"]["air.products_side_by_side"] = True
    return {
        "cache_implementation": "static",
        "compile_config": transformers.CompileConfig(mode=None, **compiled),
    }


def request_of(way: str, layers: int, tokens: int) -> Request:
    """Answers one prompt."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = llama(layers).to(torch.bfloat16).eval()
    length = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False}
    told = given(way)

    def request(prompt: Tensor) -> Tensor:
        ids: Tensor = model.generate(prompt, **length, **told)
        return ids

    return request


def main() -> None:
    """Times each way."""
    asked = begin(__doc__, layers=16, tokens=64, prompt=32, rounds=3)
    logging.disable(logging.INFO)
    prompt = torch.randint(32000, (1, asked.prompt), device="cuda")
    rows = [Timed(way, request_of(way, asked.layers, asked.tokens)) for way in WAYS]
    expected = rows[0].step(prompt)
    same = {row.name: float((row.step(prompt) == expected).float().mean()) for row in rows}
    interleave(rows, [prompt], asked.rounds, burst=1)
    title = f"generate, {asked.tokens} tokens, {asked.layers} layers, {torch.cuda.get_device_name()}"
    show(table(f"{title}, torch {torch.__version__}", rows, base="Inductor"))
    for row in rows:
        rate = asked.tokens * 1e6 / row.as_dict()["latency_us"]
        show(f"{row.name:<64}{rate:>8.1f} tokens/s, {100 * same[row.name]:.1f} % of eager's tokens")
    write(asked.json, {"generate": {row.name: row.as_dict() for row in rows}})


if __name__ == "__main__":
    main()
