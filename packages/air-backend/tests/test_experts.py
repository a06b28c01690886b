"""A decode step of a model with experts, as transformers makes them by default, is one capture on a device.

The products of the experts are told on the device where their groups end; a capture with them serves every routing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers

import air_geir
from air_backend import CompilerConfig, _records, get_npu_backend

TEXT: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 50,
    "max_position_embeddings": 32, "num_hidden_layers": 2, "num_experts_per_tok": 2,
}  # fmt: skip


def mixtral() -> Any:
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**TEXT, num_local_experts=4))


def qwen3_moe() -> Any:
    sizes = {"moe_intermediate_size": 16, "num_experts": 8, "head_dim": 8}
    return transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**TEXT, **sizes))


def deepseek_v3() -> Any:
    sizes = TEXT | {
        "num_key_value_heads": 4, "moe_intermediate_size": 16, "n_routed_experts": 8, "n_group": 2, "topk_group": 1,
        "first_k_dense_replace": 1, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8, "v_head_dim": 8, "n_shared_experts": 1,
    }  # fmt: skip
    return transformers.DeepseekV3ForCausalLM(transformers.DeepseekV3Config(**sizes))


def gpt_oss() -> Any:
    sizes = {"num_local_experts": 4, "head_dim": 8, "sliding_window": 8}
    return transformers.GptOssForCausalLM(transformers.GptOssConfig(**TEXT, **sizes))


#: A sliding window: transformers keeps its length as a Python number, which Dynamo takes for a constant in the first
#: step and for a symbol from the second on, and asks whether the window is full.
GRAPHS = {gpt_oss: 3}


def decoded(
    call: Callable[..., Any], model: Any, prompt: torch.Tensor, steps: list[int]
) -> list[torch.Tensor]:
    """The logits of steps after a prompt that eager has put into a cache of fixed size."""
    cache: Any = transformers.StaticCache(config=model.config, max_cache_len=16)
    model(prompt, past_key_values=cache)
    logits = []
    for at, word in enumerate(steps, prompt.shape[1]):
        place = torch.tensor([at], device=prompt.device)
        ids = torch.full((2, 1), word, device=prompt.device)
        out = call(ids, position_ids=place[None], past_key_values=cache, cache_position=place)
        logits.append(out.logits.cpu().clone())
    return logits


def executables_of(make: Callable[[], Any], mode: str, device: str) -> list[Any]:
    """What runs the steps of a compiled model that gives eager's logits."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    _records.close_all()
    model = make().eval().to(device)
    prompt, steps = torch.randint(50, (2, 5)).to(device), [7, 11, 23, 42, 3, 17, 29, 31, 5]
    config = CompilerConfig()
    config.set("mode", mode)
    run = torch.compile(model, backend=get_npu_backend(compiler_config=config), fullgraph=True)
    with torch.no_grad():
        found = decoded(run, model, prompt, steps)
        expected = decoded(model, model, prompt, steps)
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)
    executables = [executable for _, executable in _records.alive()]
    assert len(executables) == GRAPHS.get(make, 1)
    return executables


MODELS = pytest.mark.parametrize(
    "make", [mixtral, qwen3_moe, deepseek_v3, gpt_oss], ids=lambda make: make.__name__
)


@pytest.mark.sampled(3)
@pytest.mark.npu("on CUDA, transformers copies the experts' rows to the host for all but half precision")
@MODELS
def test_S03_a_decode_step_with_experts_is_one_capture(make: Callable[[], Any]) -> None:
    executables = executables_of(make, "reduce-overhead", "npu")
    assert all(len(executable.pieces) <= 1 and not executable.eager for executable in executables)
    assert {executable.stats()["captures"] for executable in executables} == {1}


@pytest.mark.sampled(3)
@pytest.mark.npu("max-autotune does not serve CUDA tensors")
@MODELS
def test_S03_a_decode_step_with_experts_is_one_graph_of_the_engine(make: Callable[[], Any]) -> None:
    assert all(
        isinstance(executable, air_geir.Executable)
        for executable in executables_of(make, "max-autotune", "npu")
    )
