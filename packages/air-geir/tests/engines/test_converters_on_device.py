"""Converters of NPU model code, folded views and prints on the Graph Engine: those whose kernels air-sim has."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

pytest.importorskip("torch_npu")

from air_config import CompilerConfig, Context, Settings, resolve
from air_fxpasses import npu_ops
from air_fxpasses.npu_ops.samples import Sample, samples
from air_geir import Executable, compile_graph
from air_geir.converters import resolve as operator
from air_geir.proof import trace

pytestmark = [pytest.mark.npu, pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("device_engine")]

SERVED = {
    "npu_rms_norm", "npu_add_rms_norm", "npu_add_rms_norm_v2", "npu_add_rms_norm_v2_functional",
    "npu_add_rms_norm_cast", "npu_add_rms_norm_dynamic_quant-one", "npu_add_rms_norm_dynamic_quant-two",
    "npu_swiglu", "npu_swiglu-middle", "npu_geglu", "npu_geglu-middle", "npu_gelu", "npu_fast_gelu", "fast_gelu",
    "npu_dynamic_quant", "npu_dynamic_quant-smooth", "npu_dynamic_quant-groups", "npu_dynamic_quant-pertensor",
    "npu_dynamic_quant-pertensor_smooth", "npu_dynamic_quant-perchannel",
    "npu_transpose_batchmatmul", "npu_transpose_batchmatmul-split", "npu_linear", "npu_linear-bias",
    "npu_grouped_matmul", "npu_grouped_matmul-sizes", "npu_grouped_matmul-bias", "npu_grouped_matmul-summed",
    "npu_grouped_matmul-four_bits", "npu_grouped_matmul-four_bits_turned", "npu_grouped_matmul-quantised",
    "npu_quant_matmul", "npu_quant_matmul-pertoken", "npu_quant_matmul-four_bits",
    "npu_trans_quant_param", "npu_scatter_nd_update", "npu_scatter_nd_update_",
    "scatter_update", "scatter_update_", "npu_dtype_cast", "_npu_dtype_cast", "npu_format_cast_",
    "npu_format_cast_.acl_format", "npu_top_k_top_p", "npu_top_k_top_p-k",
    "npu_dtype_cast_backward", "_npu_dtype_cast_backward",
}  # fmt: skip
"""Samples of the cards whose operator types air-sim's Graph Engine computes."""
SAMPLES = [s for s in samples() if s.name in SERVED]


def on_device(function: Any, given: list[torch.Tensor], settings: Settings | None = None) -> Executable:
    chosen = settings or resolve(CompilerConfig(), Context(device="npu"))
    return compile_graph(trace(function, given), [t.to("npu") for t in given], settings=chosen)


def test_every_operator_served_has_a_sample() -> None:
    assert {s.name for s in SAMPLES} == SERVED


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.name)
def test_an_operator_gives_on_the_graph_engine_what_its_plain_kernel_gives(
    sample: Sample, device_engine: str
) -> None:
    op = operator(f"npu.{npu_ops.row(sample.operator).overload}")
    assert op is not None
    plain_args, plain_kwargs = copy.deepcopy((sample.args, sample.kwargs))
    expected = pytree.tree_leaves(npu_ops.reference(sample.operator)(*plain_args, **plain_kwargs))
    leaves, spec = pytree.tree_flatten((tuple(sample.args), dict(sample.kwargs)))
    given = [leaf.clone() for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def call(*tensors: torch.Tensor) -> list[Any]:
        values = iter(tensors)
        filled = [next(values) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(filled, spec)
        return pytree.tree_leaves(op(*args, **kwargs))

    moved = [t.to("npu") for t in given]
    run = on_device(call, given)
    assert run.engine == device_engine
    found = run(*moved)
    written = [t for t in pytree.tree_leaves((plain_args, plain_kwargs)) if isinstance(t, torch.Tensor)]
    for one, other in zip([*found, *moved], [*expected, *written], strict=True):
        torch.testing.assert_close(one.cpu(), other, atol=4e-3, rtol=4e-3)


@pytest.mark.parametrize("fold", [False, True])
def test_G39_chains_of_views_give_the_same_folded_or_not(fold: bool) -> None:
    def views(x: torch.Tensor) -> list[torch.Tensor]:
        y = x.reshape(6, -1).reshape(2, 3, -1)
        turned = y.permute(2, 0, 1).permute(1, 0, 2).contiguous()
        return [torch.relu(turned).transpose(0, 1).transpose(0, 1).contiguous() + 1]

    config = CompilerConfig()
    config.experimental_config.enable_view_optimize = fold
    x = torch.randn(12, 4)
    run = on_device(views, [x], resolve(config, Context(device="npu")))
    kinds = [n.op_type for n in run.program.graph if n.op_type in ("Reshape", "Transpose")]
    assert len(kinds) == (2 if fold else 6)
    torch.testing.assert_close(run(x.to("npu"))[0].cpu(), views(x)[0])
