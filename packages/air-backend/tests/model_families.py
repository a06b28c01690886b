"""Models of Hugging Face by family, tiny and with random weights, and what each is called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import transformers

TEXT: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "vocab_size": 50,
    "max_position_embeddings": 32,
}  # fmt: skip


def llama(layers: int) -> Any:
    config = transformers.LlamaConfig(num_hidden_layers=layers, num_key_value_heads=2, **TEXT)
    return transformers.LlamaForCausalLM(config)


def qwen2(layers: int) -> Any:
    config = transformers.Qwen2Config(num_hidden_layers=layers, num_key_value_heads=2, **TEXT)
    return transformers.Qwen2ForCausalLM(config)


def bert(layers: int) -> Any:
    return transformers.BertModel(transformers.BertConfig(num_hidden_layers=layers, **TEXT))


def vit(layers: int) -> Any:
    sizes: dict[str, Any] = {"image_size": 16, "patch_size": 4, "num_attention_heads": 4}
    return transformers.ViTModel(
        transformers.ViTConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=layers, **sizes)
    )


def t5(layers: int) -> Any:
    config = transformers.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=layers, num_heads=4, vocab_size=50)
    return transformers.T5ForConditionalGeneration(config)


def _tokens(rows: int, length: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(0, 50, (rows, length)), "use_cache": False}


def _text(rows: int, length: int) -> dict[str, Any]:
    return {"input_ids": torch.randint(0, 50, (rows, length))}


def _images(rows: int, _length: int) -> dict[str, Any]:
    return {"pixel_values": torch.randn(rows, 3, 16, 16)}


def _pairs(rows: int, length: int) -> dict[str, Any]:
    ids = torch.randint(0, 50, (rows, length))
    return {"input_ids": ids, "decoder_input_ids": ids[:, : length - 2], "use_cache": False}


class Family(NamedTuple):
    """A kind of model, and what it is called with for so many rows of such a length."""

    build: Callable[[int], Any]
    inputs: Callable[[int, int], dict[str, Any]]


FAMILIES = {
    "llama": Family(llama, _tokens), "qwen2": Family(qwen2, _tokens), "bert": Family(bert, _text),
    "vit": Family(vit, _images), "t5": Family(t5, _pairs),
}  # fmt: skip
