"""Hugging Face models of every family that air-sim has to run, tiny and with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf

VOCABULARY = 97
_DECODER: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_ENCODER: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
}


@dataclass(frozen=True)
class Tiny:
    """A model family: how to build it, what to feed it, and whether it decodes token by token."""

    build: Callable[[], torch.nn.Module]
    inputs: Callable[[], dict[str, torch.Tensor]]
    decodes: bool = True


def tokens(length: int = 9) -> torch.Tensor:
    """Token ids for a batch of two."""
    return torch.randint(3, VOCABULARY, (2, length))


def _ids() -> dict[str, torch.Tensor]:
    return {"input_ids": tokens()}


def _deepseek() -> torch.nn.Module:
    sizes = {**_DECODER, "num_key_value_heads": 4, "moe_intermediate_size": 16, "n_routed_experts": 8}
    ranks = {
        "kv_lora_rank": 8,
        "q_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 8,
        "qk_nope_head_dim": 8,
    }
    experts = {"n_group": 2, "topk_group": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 1}
    return hf.DeepseekV3ForCausalLM(hf.DeepseekV3Config(**sizes, **ranks, **experts))


def _whisper() -> torch.nn.Module:
    layers = {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
    }
    sizes = {
        "vocab_size": VOCABULARY,
        "d_model": 32,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "num_mel_bins": 16,
    }
    lengths = {"max_source_positions": 20, "max_target_positions": 32}
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    return hf.WhisperForConditionalGeneration(hf.WhisperConfig(**layers, **sizes, **lengths, **ids))


def _t5() -> torch.nn.Module:
    sizes = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    return hf.T5ForConditionalGeneration(hf.T5Config(**sizes, decoder_start_token_id=0))


def _gpt2() -> torch.nn.Module:
    sizes = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, bos_token_id=1, eos_token_id=2))


MODELS = {
    "llama": Tiny(lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**_DECODER)), _ids),
    "qwen2": Tiny(lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**_DECODER)), _ids),
    "qwen3": Tiny(lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**_DECODER, head_dim=8)), _ids),
    "mixtral": Tiny(lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**_DECODER, num_local_experts=4)), _ids),
    "deepseek_v3": Tiny(_deepseek, _ids),
    "bert": Tiny(lambda: hf.BertModel(hf.BertConfig(vocab_size=VOCABULARY, **_ENCODER)), _ids, decodes=False),
    "vit": Tiny(
        lambda: hf.ViTModel(hf.ViTConfig(image_size=32, patch_size=8, **_ENCODER)),
        lambda: {"pixel_values": torch.randn(2, 3, 32, 32)},
        decodes=False,
    ),
    "t5": Tiny(_t5, lambda: {"input_ids": tokens(), "decoder_input_ids": tokens(4)}),
    "whisper": Tiny(
        _whisper, lambda: {"input_features": torch.randn(2, 16, 40), "decoder_input_ids": tokens(4)}
    ),
    "gpt2": Tiny(_gpt2, _ids),
}
