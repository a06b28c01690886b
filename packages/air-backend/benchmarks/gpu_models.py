"""Models of transformers on a CUDA device: a prefill, a ViT and a mixture of experts, beside torch's own backends.

    python gpu_models.py --json results.json

The rows are those of `gpu_decode.py`, interleaved in one process, each output compared with eager first. Weights are
random and of half precision, and what counts is double precision: a token whose experts rounding decides is off with
every backend.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any

import torch
import transformers
from _gpu import COMPILED, Timed, bare, begin, check, compiled, interleave, show, table, write
from torch import Tensor

Step = Callable[..., Tensor]


def llama(layers: int) -> Any:
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=32000, hidden_size=2048, intermediate_size=8192, num_hidden_layers=layers,
            num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=1024,
        )
    )  # fmt: skip


def experts(layers: int) -> Any:
    return transformers.Qwen3MoeForCausalLM(
        transformers.Qwen3MoeConfig(
            vocab_size=32000, hidden_size=1024, intermediate_size=2048, moe_intermediate_size=768,
            num_hidden_layers=layers // 4, num_attention_heads=16, num_key_value_heads=4, head_dim=64, num_experts=16,
            num_experts_per_tok=4, max_position_embeddings=1024,
        )
    )  # fmt: skip


def vit(layers: int) -> Any:
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(num_hidden_layers=layers, num_labels=1000)
    )


def tokens(rows: int, length: int) -> Tensor:
    return torch.randint(32000, (rows, length), device="cuda")


def images(number: int) -> Tensor:
    return torch.randn(number, 3, 224, 224, device="cuda", dtype=torch.bfloat16)


CASES: dict[str, tuple[Callable[[int], Any], str, Callable[[], Tensor]]] = {
    "prefill of 512 tokens": (llama, "input_ids=x, use_cache=False", lambda: tokens(1, 512)),
    "ViT, 8 images": (vit, "pixel_values=x", lambda: images(8)),
    "experts, 64 tokens": (experts, "input_ids=x, use_cache=False", lambda: tokens(1, 64)),
}


def step_of(model: Any, arguments: str) -> Step:
    """The model as a function of one tensor, with code of its own: Dynamo looks its cache up by code."""
    scope: dict[str, Any] = {"model": model}
    exec(f"def step(x):\n    return model({arguments}).logits", scope)
    step: Step = scope["step"]
    return step


def in_double(model: Any, arguments: str, x: Tensor) -> Tensor:
    """What the model gives in double precision, its weights and its input as they are."""
    exact = copy.deepcopy(model).double()
    exact.config._experts_implementation = (
        "batched_mm"  # the grouped one is for single and half precision alone
    )
    return step_of(exact, arguments)(x.double() if x.is_floating_point() else x)


def main() -> None:
    """Times each model."""
    asked = begin(__doc__, layers=8, rounds=20)
    logging.disable(logging.INFO)
    name = f"{asked.layers} layers (experts: a quarter), {torch.cuda.get_device_name()}, torch {torch.__version__}"
    for title, (make, arguments, given) in CASES.items():
        torch.manual_seed(0)
        with torch.device("cuda"):
            model = make(asked.layers).to(torch.bfloat16).eval().requires_grad_(False)
        x = given()
        with torch.no_grad():
            eager = step_of(model, arguments)
            rows = [Timed("eager", eager), *bare(step_of(model, arguments), x)]
            rows += [compiled(way, step_of(model, arguments)) for way in COMPILED if way not in asked.without]
            for row in rows:
                for _ in range(5):
                    row.step(x)
            check(rows, [x], in_double(model, arguments, x))
            interleave(rows, [x], asked.rounds)
        show(table(f"{title}, {name}", rows))
        write(asked.json, {title: {row.name: row.as_dict() for row in rows}})
        del rows, model, eager
        torch._dynamo.reset()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
