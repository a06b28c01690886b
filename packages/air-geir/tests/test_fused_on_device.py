"""Operators in the graph engine, the fused ones above all, against torch_npu's own that run one by one."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func

import air_geir
from air_config import CompilerConfig, Context, resolve

torch_npu = pytest.importorskip("torch_npu")
pytestmark = [pytest.mark.npu, pytest.mark.filterwarnings("ignore::FutureWarning")]
npu: Any = torch.ops.npu


def halved(like: torch.Tensor) -> torch.Tensor:
    """Indexes of rows, each of them twice."""
    return (torch.arange(8, device=like.device) // 2)[:, None, None].expand(like.shape)


FUNCTIONS = {
    "norm of a sum": lambda a, b, g, s: npu.npu_add_rms_norm(a, b, g, 1e-5),
    "norm of a sum, also in 32 bits": lambda a, b, g, s: npu.npu_add_rms_norm_cast(a, b, g, 1e-5),
    "rows": lambda a, b, g, s: npu.npu_dynamic_quant(a),
    "smoothed rows": lambda a, b, g, s: npu.npu_dynamic_quant(a, smooth_scales=s),
    "rows of zeros": lambda a, b, g, s: npu.npu_dynamic_quant(a * 0),
    "rows of a norm": lambda a, b, g, s: npu.npu_add_rms_norm_dynamic_quant(
        a, b, g, smooth_scale1=s, smooth_scale2=g, output_mask=[True, True]
    ),
    "a diagonal": lambda a, b, g, s: a @ torch.eye(8, dtype=a.dtype, device=a.device)[:, :5],
    "numbers in a row": lambda a, b, g, s: a.float() + torch.linspace(-1.0, 2.0, 8, device=a.device),
    "frequencies": lambda a, b, g, s: torch.fft.fft2(a.float()).real,
    "frequencies back to numbers": lambda a, b, g, s: torch.fft.irfft(torch.fft.rfft(a.float()), n=8),
    "windows added up": lambda a, b, g, s: torch.nn.functional.fold(a.float(), (3, 5), (2, 2)),
    "a mirrored border": lambda a, b, g, s: torch.nn.functional.pad(a[None].float(), (1, 2, 2, 1), "reflect"),
    "a mirrored border of nothing": lambda a, b, g, s: torch.nn.functional.pad(
        a[None], (0, 0, 0, 0), "reflect"
    ),
    "the largest on each place": lambda a, b, g, s: b.float().scatter_reduce(0, halved(a), a.float(), "amax"),
    "the product on each place": lambda a, b, g, s: b.float().scatter_reduce(0, halved(a), a.float(), "prod"),
    "how many drawn numbers are below 1": lambda a, b, g, s: (torch.rand(64, device=a.device) < 1).sum(),
    "turned batches": lambda a, b, g, s: npu.npu_transpose_batchmatmul(
        a, b.permute(1, 2, 0).contiguous(), perm_x1=[1, 0, 2], perm_y=[1, 0, 2]
    ),
}


def compiled(function: Any, seen: list[air_geir.Executable], *, dynamic: bool = False) -> Any:
    def inner(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        seen.append(
            air_geir.compile_graph(gm, inputs, settings=resolve(CompilerConfig(), Context(device="npu")))
        )
        return make_boxed_func(seen[-1])

    torch._dynamo.reset()
    return torch.compile(function, backend=aot_autograd(fw_compiler=inner), dynamic=dynamic, fullgraph=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_operator_in_the_engine_equals_torch_npus_own(name: str, device_engine: str) -> None:
    torch.manual_seed(0)
    function: Any = FUNCTIONS[name]
    a, b = torch.randn(8, 4, 8).half().to("npu"), torch.randn(8, 4, 8).half().to("npu")
    gamma, smooth = (torch.rand(8).half().to("npu") + 0.5 for _ in range(2))
    seen: list[air_geir.Executable] = []
    with torch.no_grad():
        got = compiled(function, seen)(a, b, gamma, smooth)
        wanted = function(a, b, gamma, smooth)
    assert seen[0].explain()["engine"] == device_engine
    one, other = (value if isinstance(value, (list, tuple)) else [value] for value in (got, wanted))
    for mine, theirs in zip(one, other, strict=True):
        near = 1 if mine.dtype == torch.int8 else 2e-3
        torch.testing.assert_close(mine.cpu(), theirs.cpu(), atol=near, rtol=2e-3)


@pytest.mark.parametrize(("mode", "scales"), [("pertoken", 64), ("pertensor", 64), ("perchannel", 8)])
def test_smoothed_values_are_quantised_without_rounding_to_16_bits_first(
    mode: str, scales: int, device_engine: str
) -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 64).bfloat16().to("npu")
    smooth = (torch.rand(scales) + 0.01).bfloat16().to("npu")

    def quantised(a: torch.Tensor, s: torch.Tensor) -> Any:
        return npu.npu_dynamic_quant(a, smooth_scales=s, quant_mode=mode)

    seen: list[air_geir.Executable] = []
    found = compiled(quantised, seen)(x, smooth)
    assert seen[0].explain()["engine"] == device_engine
    for mine, theirs in zip(found, quantised(x, smooth), strict=True):
        assert torch.equal(mine.cpu(), theirs.cpu())


@pytest.mark.parametrize("result", [torch.float16, torch.int8, torch.bfloat16], ids=str)
@pytest.mark.parametrize("with_offset", [True, False], ids=["offset", "no offset"])
def test_a_scale_of_a_product_is_packed_where_torch_npu_packs_it(
    result: torch.dtype, with_offset: bool, device_engine: str
) -> None:
    torch.manual_seed(0)
    x, weight = (torch.randint(-8, 8, size, dtype=torch.int8).to("npu") for size in ((16, 64), (64, 32)))
    scale = (torch.rand(32) * 0.1 + 0.01).to("npu")
    offset = torch.rand(32).to("npu") if with_offset else None

    def product(a: torch.Tensor, b: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = npu.npu_quant_matmul(a, b, s, offset=offset, output_dtype=result)
        return found

    seen: list[air_geir.Executable] = []
    found = compiled(product, seen)(x, weight, scale)
    assert seen[0].explain()["engine"] == device_engine
    kinds = [node.op_type for node in seen[0].program.graph]
    assert ("TransQuantParamV2" in kinds) == (result != torch.bfloat16)
    assert torch.equal(found.cpu(), product(x, weight, scale).cpu())


def test_routing_of_a_batch_of_open_size_gives_what_eager_gives(device_engine: str) -> None:
    torch.manual_seed(0)

    def routed(x: torch.Tensor, experts: torch.Tensor) -> Any:
        return npu.npu_moe_init_routing_v2(
            x, experts, active_num=x.shape[0] * 2, expert_num=4, expert_tokens_num_type=1,
            expert_tokens_num_flag=True, quant_mode=1, active_expert_range=[0, 4], row_idx_type=0,
        )  # fmt: skip

    seen: list[air_geir.Executable] = []
    run = compiled(routed, seen, dynamic=True)
    for rows in (5, 3):
        x = torch.randn(rows, 16).half().to("npu")
        experts = torch.stack([torch.randperm(4)[:2] for _ in range(rows)]).to(torch.int32).to("npu")
        for mine, theirs in zip(run(x, experts), routed(x, experts), strict=True):
            assert torch.equal(mine.cpu(), theirs.cpu())


def test_bytes_are_read_as_shared_exponents(device_engine: str) -> None:
    def exponents(x: torch.Tensor) -> torch.Tensor:
        return x.view(torch.float8_e8m0fnu).float()

    x = torch.arange(100, 140, dtype=torch.uint8).to("npu")
    seen: list[air_geir.Executable] = []
    assert torch.equal(compiled(exponents, seen)(x).cpu(), exponents(x).cpu())
    assert seen[0].explain()["engine"] == device_engine


@pytest.mark.parametrize("function", [torch.exp, torch.log], ids=["exp", "log"])
def test_a_function_of_complex_infinities_gives_what_eager_gives(function: Any, device_engine: str) -> None:
    x = torch.tensor([complex(math.inf, 0), complex(0, math.inf), complex(1, -0.0)]).to("npu")
    seen: list[air_geir.Executable] = []
    found = compiled(function, seen)(x)
    assert seen[0].explain()["engine"] == device_engine
    torch.testing.assert_close(found.cpu(), function(x).cpu(), equal_nan=True)
