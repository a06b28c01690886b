"""Models with experts, tiny and with random weights, with the experts that transformers takes by default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from air_geir import Executable, compile_graph
from air_geir.ir import DataType
from air_geir.proof import check_call, compile_call

transformers = pytest.importorskip("transformers")

#: Models whose layers are of two kinds have two of them.
TEXT: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 50,
    "max_position_embeddings": 32, "num_hidden_layers": 1, "num_experts_per_tok": 2,
}  # fmt: skip


def mixtral() -> Any:
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**TEXT, num_local_experts=4))


def qwen3_moe() -> Any:
    sizes = {"moe_intermediate_size": 16, "num_experts": 8, "head_dim": 8}
    return transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**TEXT, **sizes))


def deepseek_v3() -> Any:
    sizes = TEXT | {
        "num_hidden_layers": 2, "num_key_value_heads": 4, "moe_intermediate_size": 16, "n_routed_experts": 8,
        "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1, "q_lora_rank": 16, "kv_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8, "v_head_dim": 8, "n_shared_experts": 1,
    }  # fmt: skip
    return transformers.DeepseekV3ForCausalLM(transformers.DeepseekV3Config(**sizes))


def gpt_oss() -> Any:
    sizes = {"num_hidden_layers": 2, "num_local_experts": 4, "head_dim": 8, "sliding_window": 8}
    return transformers.GptOssForCausalLM(transformers.GptOssConfig(**(TEXT | sizes)))


def qwen3_next() -> Any:
    sizes = {
        "moe_intermediate_size": 16, "num_experts": 8, "head_dim": 8, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "shared_expert_intermediate_size": 16, "layer_types": ["linear_attention", "full_attention"],
        "num_hidden_layers": 2,
    }  # fmt: skip
    return transformers.Qwen3NextForCausalLM(transformers.Qwen3NextConfig(**(TEXT | sizes)))


MODELS = [mixtral, qwen3_moe, deepseek_v3, gpt_oss, qwen3_next]


def compiled(model: Any, programs: list[Executable], **options: Any) -> Any:
    """The model with every graph of it compiled by air-geir; fullgraph, so that nothing is left to eager torch."""

    def compiler(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        programs.append(compile_graph(gm, inputs))
        return programs[-1]

    backend = aot_autograd(fw_compiler=compiler)
    return torch.compile(model, backend=backend, fullgraph=True, **options)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("make", MODELS, ids=lambda m: m.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_N03_a_model_with_experts_is_one_graph_equal_to_eager(
    make: Callable[[], Any], dtype: torch.dtype
) -> None:
    """Each product of experts is one operator whose group list stays on the device, with weights as they are stored."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, programs = make().eval().to(dtype), []  # type: ignore[var-annotated]
    ids = torch.randint(0, 50, (2, 9))
    with torch.no_grad():
        expected = model(ids, use_cache=False).logits
        found = compiled(model, programs)(ids, use_cache=False).logits
    rtol, atol = (1e-4, 1e-5) if dtype == torch.float32 else (2e-2, 5e-3)
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)
    nodes = [node for program in programs for node in program.program.graph]
    products = [node for node in nodes if node.op_type == "GroupedMatmul"]
    assert products
    assert {node.op_type for node in nodes} >= {"Histogram"}
    for node in products:
        weight = node.input("weight")
        assert weight is not None
        assert weight.node.op_type in ("Data", "Cast"), weight.node


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_N03_the_groups_of_a_product_may_be_empty_or_leave_rows_over(dynamic: bool) -> None:
    pytest.importorskip("transformers.integrations.moe")
    x, weight = torch.randn(6, 8), torch.randn(4, 5, 8)
    product = torch.ops.transformers.grouped_mm_fallback
    for ends in ([0, 2, 2, 6], [6, 6, 6, 6], [1, 2, 3, 4], [0, 0, 0, 0]):
        offs = torch.tensor(ends, dtype=torch.int32)
        check_call(lambda x, w, o: product(x, w.transpose(-2, -1), o), (x, weight, offs), {}, dynamic=dynamic)


def test_N03_experts_train() -> None:
    pytest.importorskip("transformers.integrations.moe")
    if not hasattr(torch.ops.transformers, "grouped_mm_fallback_backward"):
        pytest.skip("this transformers has no operator for it")
    x, weight, grad = torch.randn(6, 8), torch.randn(4, 8, 5), torch.randn(6, 5)
    offs = torch.tensor([1, 1, 4, 6], dtype=torch.int32)
    check_call(torch.ops.transformers.grouped_mm_fallback_backward, (x, weight, offs, grad), {})


def test_N03_a_weight_that_others_read_transposed_stays_transposed_for_them() -> None:
    pytest.importorskip("transformers.integrations.moe")
    product = torch.ops.transformers.grouped_mm_fallback

    def twice(x: torch.Tensor, w: torch.Tensor, o: torch.Tensor) -> Any:
        turned = w.transpose(-2, -1)
        return product(x, turned, o), turned + 1

    offs = torch.tensor([2, 6], dtype=torch.int32)
    call = (torch.randn(6, 8), torch.randn(2, 5, 8), offs)
    check_call(twice, call, {})
    run, _ = compile_call(twice, call, {})
    (node,) = run.program.graph.of_type("GroupedMatmul")
    assert node.attr("transpose_weight")


def test_N03_a_list_that_a_product_of_groups_is_not_given_holds_a_tensor_without_elements() -> None:
    offs = torch.tensor([2, 6], dtype=torch.int32)
    x, weight = (torch.randn(size, dtype=torch.bfloat16) for size in [(6, 8), (2, 8, 8)])
    run, _ = compile_call(torch.ops.aten._grouped_mm.default, (x, weight, offs), {})
    (node,) = run.program.graph.of_type("GroupedMatmul")
    names = ("bias", "scale", "offset", "antiquant_scale", "antiquant_offset")
    given = [node.inputs[node.slots_of(name)[0]] for name in names]
    types = [DataType.FLOAT, DataType.UINT64, DataType.FLOAT, DataType.FLOAT16, DataType.FLOAT16]
    assert [port.desc.dtype for port in given if port is not None] == types
    assert {port.desc.shape for port in given if port is not None} == {(0,)}
