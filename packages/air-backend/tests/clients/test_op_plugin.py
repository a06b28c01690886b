"""op-plugin's pages of operators: each one called alone and in a graph, as the examples there do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
import torch
from torch import Tensor

from as_eager import same_as_eager

pytestmark = pytest.mark.npu("the operators are torch_npu's")


def npu() -> Any:
    import torch_npu

    return torch_npu


def half(*size: int) -> Tensor:
    return torch.randn(size).half().to("npu")


def whole(*size: int) -> Tensor:
    return torch.randint(-8, 8, size, dtype=torch.int8).to("npu")


#: The operator -> how a page calls it, and with what.
PAGES: Final[Mapping[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]]] = {
    "npu_rms_norm": (lambda x, g: npu().npu_rms_norm(x, g, 1e-6)[0], lambda: (half(2, 8, 16), half(16))),
    "npu_add_rms_norm": (
        lambda x, r, g: npu().npu_add_rms_norm(x, r, g)[0::2],
        lambda: (half(2, 16), half(2, 16), half(16)),
    ),
    "npu_swiglu": (lambda x: npu().npu_swiglu(x, dim=-1), lambda: (half(2, 32),)),
    "npu_rotary_mul": (
        lambda x, cos, sin: npu().npu_rotary_mul(x, cos, sin),
        lambda: (half(2, 4, 2, 64), half(1, 4, 1, 64), half(1, 4, 1, 64)),
    ),
    "npu_scatter_nd_update": (
        lambda x, at, new: npu().npu_scatter_nd_update(x, at, new),
        lambda: (half(6, 8), torch.tensor([[0], [4]]).to("npu"), half(2, 8)),
    ),
    "npu_dynamic_quant": (lambda x: npu().npu_dynamic_quant(x), lambda: (half(4, 16),)),
    "npu_quantize": (
        lambda x, s, z: npu().npu_quantize(x, s, z, torch.qint8, axis=-1),
        lambda: (half(4, 8).float(), torch.rand(1).to("npu") + 0.1, torch.zeros(1).to("npu")),
    ),
    "npu_quant_matmul": (
        lambda a, b, s: npu().npu_quant_matmul(a, b, s, output_dtype=torch.float16),
        lambda: (whole(4, 32), whole(32, 16), torch.rand(16).to("npu")),
    ),
    "npu_weight_quant_batchmatmul": (
        lambda x, w, s: npu().npu_weight_quant_batchmatmul(x, w, s),
        lambda: (half(4, 32), whole(32, 16), half(1, 16)),
    ),
    "npu_grouped_matmul": (
        lambda x, w: npu().npu_grouped_matmul([x], [w], split_item=0, group_type=-1),
        lambda: (half(4, 16), half(16, 8)),
    ),
    "npu_moe_gating_top_k_softmax": (
        lambda x: npu().npu_moe_gating_top_k_softmax(x, None, k=2)[:2],
        lambda: (half(4, 8).float(),),
    ),
    "npu_fused_infer_attention_score": (
        lambda q, k, v: npu().npu_fused_infer_attention_score(
            q, k, v, num_heads=2, input_layout="BNSD", scale=0.125
        )[0],
        lambda: (half(1, 2, 1, 64), half(1, 2, 16, 64), half(1, 2, 16, 64)),
    ),
    "npu_prompt_flash_attention": (
        lambda q, k, v: npu().npu_prompt_flash_attention(
            q, k, v, num_heads=2, input_layout="BNSD", scale_value=0.125
        ),
        lambda: (half(1, 2, 16, 64), half(1, 2, 16, 64), half(1, 2, 16, 64)),
    ),
    "npu_transpose_batchmatmul": (
        lambda x, w: npu().npu_transpose_batchmatmul(x, w, perm_x1=(1, 0, 2), perm_y=(1, 0, 2)),
        lambda: (half(16, 4, 128), half(4, 128, 128)),
    ),
}


#: Those that air-sim's graph engine has a kernel for.
ENGINE: Final = ("npu_rms_norm", "npu_scatter_nd_update")


def compiled(function: Any, mode: str, dynamic: bool) -> Any:
    import torchair  # type: ignore[import-not-found]

    config = torchair.CompilerConfig()
    config.mode = mode
    backend = torchair.get_npu_backend(compiler_config=config)
    return torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)


@pytest.mark.parametrize("operator", PAGES)
def test_op_plugins_page_of_an_operator_in_a_captured_graph(operator: str) -> None:
    call, inputs = PAGES[operator]
    same_as_eager(compiled(call, "reduce-overhead", False), call, inputs())


@pytest.mark.parametrize("operator", ENGINE)
def test_op_plugins_page_of_an_operator_in_a_graph_for_the_engine(operator: str) -> None:
    call, inputs = PAGES[operator]
    same_as_eager(compiled(call, "max-autotune", True), call, inputs())
