"""vLLM-Ascend, main branch: graphs of Dynamo given to npugraph_ex, what is kept of them, operators of a step."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch._inductor.compile_fx import graph_returns_tuple, make_graph_return_tuple

from as_eager import assert_same, same_as_eager

OPTIONS = {"force_eager": True, "inplace_pass": False, "clone_input": False, "clone_output": False}


def backend_of_vllm(**more: Any) -> Any:
    import npugraph_ex  # type: ignore[import-not-found]
    from npugraph_ex.configs.compiler_config import _process_kwargs_options  # type: ignore[import-not-found]

    config = npugraph_ex.CompilerConfig()
    _process_kwargs_options(config, {"options": OPTIONS | more})
    return npugraph_ex.get_npu_backend(compiler_config=config)


def with_tuple(graph: fx.GraphModule, inputs: Any, backend: Any) -> Any:
    """Graphs of pieces may give one tensor."""
    if graph_returns_tuple(graph):
        return backend(graph, inputs)
    return make_graph_return_tuple(graph, inputs, backend)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(16, 64), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.up(x).chunk(2, -1)
        result: Tensor = self.down(torch.nn.functional.gelu(gate) * up)
        return result


@pytest.mark.parametrize("static", [False, True])
def test_vllm_ascend_gives_dynamos_graph_to_the_backend_itself(static: bool) -> None:
    mlp = Mlp()
    run = torch.compile(mlp, backend=lambda g, i: with_tuple(g, i, backend_of_vllm()), dynamic=not static)
    same_as_eager(run, mlp, (torch.randn(3, 16),), (torch.randn(5, 16),))


def test_vllm_ascend_compiles_a_piece_that_gives_one_tensor() -> None:
    x = torch.randn(4)
    graph = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    run = with_tuple(graph, [x], backend_of_vllm())
    assert_same(run(x), torch.relu(x) + 1)


def test_vllm_ascend_keeps_the_text_that_its_own_function_sees(tmp_path: Path) -> None:
    compiler = importlib.import_module("npugraph_ex.npu_fx_compiler")
    before = compiler._NpuFxCompiler._get_compiled_gm
    file = tmp_path / "graph"

    def kept(self: Any, graph: Any, inputs: Any) -> Any:
        compiled = before(self, graph, inputs)
        file.write_text(compiled.get_code())
        return compiled

    x = torch.randn(2, 16)
    mlp = Mlp().requires_grad_(False)
    compiler._NpuFxCompiler._get_compiled_gm = kept
    try:
        with torch.no_grad():
            run = torch.compile(mlp, backend=lambda g, i: with_tuple(g, i, backend_of_vllm()), dynamic=False)
            expected = run(x)
    finally:
        compiler._NpuFxCompiler._get_compiled_gm = before
    artifacts = compiler._CompiledFxArtifacts()
    artifacts.py_code = file.read_text()
    again = compiler._CompiledFxGraph.load_artifacts(artifacts)
    assert artifacts.py_code

    def loaded(graph: Any, inputs: Any) -> Any:
        return again

    torch._dynamo.reset()
    with torch.no_grad():
        assert_same(torch.compile(mlp, backend=loaded, dynamic=False)(x), expected)


def test_vllm_ascend_asks_for_static_kernels_of_its_batch_sizes() -> None:
    backend = backend_of_vllm(static_kernel_compile=True, _vllm_aclnn_static_kernel_sym_range=[1, 2, 4])
    kernels = backend.config.experimental_config.aclgraph
    assert kernels._aclnn_static_shape_kernel is True
    assert list(kernels._aclnn_static_shape_kernel_sym_value_range) == [1, 2, 4]


def test_vllm_ascend_falls_back_to_torchair_where_npugraph_ex_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "npugraph_ex", None)
    with pytest.raises(ImportError):
        importlib.import_module("npugraph_ex")
    import torchair  # type: ignore[import-not-found]

    config = torchair.CompilerConfig()
    config.mode = "reduce-overhead"
    config.debug.run_eagerly = True
    config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass = True
    backend = torchair.get_npu_backend(compiler_config=config)
    mlp = Mlp()
    run = torch.compile(mlp, backend=lambda g, i: with_tuple(g, i, backend), dynamic=True)
    same_as_eager(run, mlp, (torch.randn(3, 16),))


def options_route(function: Any, **options: Any) -> Any:
    return torch.compile(
        function, backend="npugraph_ex", options=options or None, fullgraph=True, dynamic=False
    )


@pytest.mark.npu("the program of vLLM-Ascend is for NPUs")
def test_vllm_ascend_quantises_activations_for_each_token() -> None:
    import torch_npu

    weight = torch.randint(-8, 8, (32, 64), dtype=torch.int8).to("npu")
    scale = torch.rand(64).to("npu")

    def linear(x: Tensor) -> Tensor:
        quantised, per_token = torch_npu.npu_dynamic_quant(x)
        result: Tensor = torch_npu.npu_quant_matmul(
            quantised, weight, scale, pertoken_scale=per_token, output_dtype=torch.float16
        )
        return result

    same_as_eager(options_route(linear), linear, (torch.randn(4, 32).half().to("npu"),))


@pytest.mark.npu("the program of vLLM-Ascend is for NPUs")
def test_vllm_ascend_adds_and_normalises_and_gates() -> None:
    import torch_npu

    gamma = torch.rand(32).half().to("npu")

    def layer(x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        normed, _, total = torch_npu.npu_add_rms_norm(x, residual, gamma, 1e-6)
        return torch_npu.npu_swiglu(normed), total

    inputs = torch.randn(4, 32).half().to("npu"), torch.randn(4, 32).half().to("npu")
    same_as_eager(options_route(layer), layer, inputs, repeat=3)


@pytest.mark.npu("the program of vLLM-Ascend is for NPUs")
def test_vllm_ascend_rotates_queries_and_keys() -> None:
    import torch_npu

    def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        return torch_npu.npu_rotary_mul(q, cos, sin), torch_npu.npu_rotary_mul(k, cos, sin)

    inputs = [torch.randn(2, 1, 4, 64).to("npu") for _ in range(2)] + [
        torch.randn(2, 1, 1, 64).to("npu") for _ in range(2)
    ]
    same_as_eager(options_route(rotate), rotate, tuple(inputs))


@pytest.mark.npu("the program of vLLM-Ascend is for NPUs")
def test_vllm_ascend_writes_keys_into_slots_and_reads_them_in_the_next_step() -> None:
    import torch_npu

    def step(cache: Tensor, slots: Tensor, new: Tensor) -> Tensor:
        torch_npu.npu_scatter_nd_update_(cache, slots, new)
        return cache.sum(0)

    run = options_route(step, clone_input=False)
    mine, theirs = torch.zeros(8, 16).to("npu"), torch.zeros(8, 16).to("npu")
    with torch.no_grad():
        for number in range(5):
            slots, new = torch.tensor([[number], [7 - number]]).to("npu"), torch.randn(2, 16).to("npu")
            assert_same(run(mine, slots, new), step(theirs, slots, new))
            assert_same(mine, theirs)


@pytest.mark.npu("the program of vLLM-Ascend is for NPUs")
def test_vllm_ascend_routes_tokens_to_experts() -> None:
    import torch_npu

    def route(x: Tensor) -> tuple[Tensor, Tensor]:
        weights, experts, _ = torch_npu.npu_moe_gating_top_k_softmax(x, None, k=2)
        return weights / weights.sum(-1, keepdim=True), experts

    same_as_eager(options_route(route), route, (torch.randn(6, 8).to("npu"),))


@pytest.mark.npu("the program of vLLM-Ascend is for NPUs")
def test_vllm_ascend_multiplies_groups_of_tokens_with_their_experts() -> None:
    import torch_npu

    weight = torch.randn(3, 16, 8).half().to("npu")

    def experts(x: Tensor, ends: Tensor) -> Any:
        (result,) = torch_npu.npu_grouped_matmul(
            [x], [weight], group_list=ends, split_item=2, group_type=0, group_list_type=0
        )
        return result

    x = torch.randn(6, 16).half().to("npu")
    calls = [(x, torch.tensor(ends).to("npu")) for ends in ([2, 3, 6], [0, 5, 6])]
    same_as_eager(options_route(experts), experts, *calls)


@pytest.mark.npu("the program of vLLM-Ascend is for NPUs")
def test_vllm_ascend_attends_with_lengths_of_the_host_that_grow() -> None:
    import torch_npu

    def attend(q: Tensor, k: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
        out: Tensor
        out, _ = torch_npu.npu_fused_infer_attention_score(
            q, k, v, num_heads=4, input_layout="BSH", scale=0.25, actual_seq_lengths_kv=lengths
        )
        return out

    run = torch.compile(attend, backend="npugraph_ex", fullgraph=True, dynamic=True)
    q = torch.randn(2, 1, 64).half().to("npu")
    k, v = torch.randn(2, 32, 64).half().to("npu"), torch.randn(2, 32, 64).half().to("npu")
    same_as_eager(run, attend, *((q, k, v, [n, n + 2]) for n in (3, 9, 20)))


@pytest.mark.npu("the program of vLLM-Ascend is for NPUs")
def test_vllm_ascend_limits_the_cores_of_a_block() -> None:
    scope: Any = vars(torch)["npu"].npugraph_ex.scope

    def limited(x: Tensor) -> tuple[Tensor, Tensor]:
        with scope.limit_core_num(8, 16):
            y = x @ x
        return y, x + 1

    same_as_eager(options_route(limited), limited, (torch.randn(8, 8).to("npu"),))
