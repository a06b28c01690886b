"""Hugging Face decoders with tiny random weights: every step of the pipeline is proven on their real graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from air_fxpasses import Pipeline, PipelineReport, default_passes
from air_fxpasses.testing import backend_of

transformers = pytest.importorskip("transformers")

_TINY: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 64,
}
_MODELS = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", {}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {"num_hidden_layers": 1}),
    "mixtral": (
        "MixtralConfig",
        "MixtralForCausalLM",
        {"num_hidden_layers": 1, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
}


def tiny(name: str) -> torch.nn.Module:
    config_class, model_class, more = _MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, config_class)(**(_TINY | more))
    model: torch.nn.Module = getattr(transformers, model_class)(config).eval()
    return model


def proving(reports: list[PipelineReport]) -> Callable[..., Any]:
    """A backend that proves every step of the pipeline on every graph it is given."""
    return backend_of(lambda graph: reports.append(Pipeline(default_passes(), verify=True).run(graph)))


def check(reports: list[PipelineReport]) -> None:
    assert reports
    for report in reports:
        assert not any(step.rolled_back for step in report.steps), report.explain()
        assert not report.unverified, report.unverified
    assert any(report.step("reinplace_inplaceable").modified for report in reports)


#: What symbolic sizes add, the decoder of one layer shows with two sizes that are marked: `dynamic=True` makes many
#: more symbols, and takes twice the time.
_CASES: list[Any] = [
    ("llama", False),
    ("mixtral", False),
    ("qwen2", None),
    *(
        pytest.param(*case, marks=pytest.mark.slow)
        for case in (("qwen2", False), *((name, True) for name in _MODELS))
    ),
]


@pytest.mark.parametrize(("name", "dynamic"), _CASES)
def test_N14_every_step_is_proven_on_a_forward_pass(name: str, dynamic: bool | None) -> None:
    """On this Llama an existing NPU backend writes in place into an expanded tensor, and fails."""
    torch._dynamo.reset()
    model = tiny(name)
    reports: list[PipelineReport] = []
    tokens = torch.randint(0, 64, (2, 7), generator=torch.Generator().manual_seed(1))
    for dim in () if dynamic is not None else (0, 1):
        torch._dynamo.mark_dynamic(tokens, dim)
    with torch.no_grad():
        expected = model(tokens, use_cache=False).logits
        found = torch.compile(model, backend=proving(reports), dynamic=dynamic)(
            tokens, use_cache=False
        ).logits
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    check(reports)


@pytest.mark.parametrize("name", ["qwen2", pytest.param("llama", marks=pytest.mark.slow)])
def test_S15_decoding_with_a_static_cache_copies_no_cache(name: str) -> None:
    torch._dynamo.reset()
    model = tiny(name)
    reports: list[PipelineReport] = []
    tokens = torch.tensor([[5]])

    def decode(module: Any, cache: Any) -> list[torch.Tensor]:
        with torch.no_grad():
            return [
                module(tokens + i, past_key_values=cache, cache_position=torch.tensor([i])).logits
                for i in range(3)
            ]

    def cache() -> Any:
        return transformers.StaticCache(config=model.config, max_cache_len=16)

    expected = decode(model, cache())
    found = decode(torch.compile(model, backend=proving(reports), dynamic=False), cache())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    check(reports)
