"""Numbers of configurations become small by their names, and what was equal or a multiple stays so."""

from __future__ import annotations

from typing import Any

import pytest

from zoo.shrinking import LADDER, Step, overrides, smaller
from zoo.unloaded import declare_what_torchvision_lacks

LEAST = LADDER[0]


def config_of(name: str, **given: Any) -> Any:
    declare_what_torchvision_lacks()
    import transformers

    return getattr(transformers, name)(**given)


def small(config: Any, step: Step = LEAST) -> Any:
    return type(config)(**overrides(config, step))


def test_widths_heads_and_their_width_shrink_together() -> None:
    config = small(config_of("LlamaConfig", head_dim=128))
    assert (config.hidden_size, config.num_attention_heads, config.head_dim) == (128, 8, 16)
    assert (config.num_hidden_layers, config.vocab_size) == (2, 128)


def test_ids_of_words_stay_inside_of_the_vocabulary() -> None:
    config = small(config_of("LlamaConfig", eos_token_id=128001, pad_token_id=3))
    assert config.eos_token_id < 128
    assert config.pad_token_id == 3


def test_each_kind_of_layer_is_kept_once() -> None:
    kinds = ["linear_attention", "linear_attention", "linear_attention", "full_attention"] * 3
    config = small(config_of("Qwen3NextConfig", num_hidden_layers=12, layer_types=kinds))
    assert config.layer_types == ["linear_attention", "full_attention"]
    assert config.num_hidden_layers == 2


def test_configurations_inside_of_one_shrink_as_well() -> None:
    config = small(config_of("LlavaConfig"))
    assert config.text_config.num_hidden_layers == config.vision_config.num_hidden_layers == 2
    assert config.vision_config.image_size == 4 * config.vision_config.patch_size


def test_a_later_step_leaves_widths_alone() -> None:
    assert small(config_of("LlamaConfig"), Step(1, 1)).hidden_size == config_of("LlamaConfig").hidden_size


@pytest.mark.parametrize(("name", "value", "expected"), [
    ("num_experts", 64, 4), ("num_experts_per_tok", 8, 2), ("n_group", 8, 1), ("norm_num_groups", 32, 2),
    ("depths", [3, 4, 6, 3], [1, 1, 1, 1]), ("hidden_sizes", (96, 192), (4, 6)), ("kernel_size", 7, 7),
    ("num_channels", 3, 3), ("initializer_range", 0.02, 0.02), ("tie_word_embeddings", True, True),
])  # fmt: skip
def test_a_number_shrinks_by_its_name(name: str, value: Any, expected: Any) -> None:
    assert smaller(name, value, LEAST, {}) == expected
