"""A tiny Llama with random weights, whose class torch can name in a file."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM


class Llama(nn.Module):
    """One layer."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.model = LlamaForCausalLM(config)

    def logits(self, ids: Tensor) -> Tensor:
        """What the model thinks comes next, at every position."""
        result: Tensor = self.model(ids, use_cache=False).logits
        return result


def made() -> Llama:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=32,
        max_position_embeddings=32,
    )
    model = Llama(config)
    model.eval()
    return model
