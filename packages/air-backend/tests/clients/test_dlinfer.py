"""dlinfer: operators of its own library over torch_npu's, with fake kernels, compiled by torchair or captured."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from air_geir.converters import unregister
from as_eager import assert_same, same_as_eager

LIBRARY = torch.library.Library("dlinfer_like", "DEF")
LIBRARY.define("add_rms_norm(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor, Tensor)")
LIBRARY.define("fill_kv_cache(Tensor key, Tensor(a!) cache, Tensor indices) -> ()")
LIBRARY.define("silu_and_mul(Tensor x, int dim) -> Tensor")


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    total = x + residual
    return total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + eps) * weight, total


def fill_kv_cache(key: Tensor, cache: Tensor, indices: Tensor) -> None:
    cache.index_copy_(0, indices, key)


def silu_and_mul(x: Tensor, dim: int) -> Tensor:
    gate, up = x.chunk(2, dim)
    return torch.nn.functional.silu(gate) * up


LIBRARY.impl("add_rms_norm", add_rms_norm, "CompositeExplicitAutograd")
LIBRARY.impl("fill_kv_cache", fill_kv_cache, "CompositeExplicitAutograd")
LIBRARY.impl("silu_and_mul", silu_and_mul, "CompositeExplicitAutograd")
LIBRARY.impl("add_rms_norm", lambda x, r, w, eps: (torch.empty_like(x), torch.empty_like(x)), "Meta")
LIBRARY.impl("fill_kv_cache", lambda key, cache, indices: None, "Meta")
LIBRARY.impl("silu_and_mul", lambda x, dim: x.new_empty((*x.shape[:-1], x.shape[-1] // 2)), "Meta")
ops = torch.ops.dlinfer_like


def backend_of_dlinfer(mode: str = "max-autotune") -> Any:
    import torchair  # type: ignore[import-not-found]

    importlib.import_module("torchair._contrib.custom_torch_ops")
    config = torchair.CompilerConfig()
    config.mode = mode
    return torchair.get_npu_backend(compiler_config=config)


@pytest.fixture
def converter() -> Iterator[None]:
    from torchair._ge_concrete_graph import ge_apis as ge  # type: ignore[import-not-found]
    from torchair._ge_concrete_graph.fx2ge_converter import (  # type: ignore[import-not-found]
        register_fx_node_ge_converter,
    )

    def convert(x: Any, dim: int, meta_outputs: Any = None) -> Any:
        return ge.SwiGlu(x, dim=dim)

    register_fx_node_ge_converter(ops.silu_and_mul.default)(convert)
    yield
    unregister(ops.silu_and_mul.default)


def test_dlinfer_captures_its_operators_as_they_are() -> None:
    weight = torch.rand(8)

    def layer(x: Tensor, residual: Tensor) -> Any:
        normed, total = ops.add_rms_norm(x, residual, weight, 1e-6)
        return ops.silu_and_mul(normed, -1), total

    run = torch.compile(layer, backend=backend_of_dlinfer("reduce-overhead"), fullgraph=True, dynamic=False)
    same_as_eager(run, layer, (torch.randn(3, 8), torch.randn(3, 8)), repeat=3)


def test_dlinfer_fills_a_cache_through_an_operator_that_writes() -> None:
    def step(key: Tensor, cache: Tensor, indices: Tensor) -> Tensor:
        ops.fill_kv_cache(key, cache, indices)
        return cache.sum(0)

    run = torch.compile(step, backend=backend_of_dlinfer("reduce-overhead"), fullgraph=True)
    calls = [(torch.randn(2, 4), torch.zeros(6, 4), torch.tensor(at)) for at in ([0, 1], [5, 2])]
    same_as_eager(run, step, *calls)


def test_dlinfer_registers_a_converter_for_the_engine(converter: None) -> None:
    def gate(x: Tensor) -> Tensor:
        result: Tensor = ops.silu_and_mul(x * 2, -1)
        return result

    run = torch.compile(gate, backend=backend_of_dlinfer(), fullgraph=True, dynamic=False)
    same_as_eager(run, gate, (torch.randn(3, 8),))


def test_dlinfer_runs_what_has_no_converter_between_pieces_for_the_engine() -> None:
    weight = torch.rand(8)

    def layer(x: Tensor, residual: Tensor) -> Any:
        normed, total = ops.add_rms_norm(x @ x.T @ x, residual, weight, 1e-6)
        return normed.relu() + 1, total * 2

    run = torch.compile(layer, backend=backend_of_dlinfer(), fullgraph=True, dynamic=False)
    same_as_eager(run, layer, (torch.randn(3, 8), torch.randn(3, 8)))


@pytest.mark.npu("the program of DLInfer is for NPUs")
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_dlinfer_runs_a_layer_on_the_device(mode: str) -> None:
    weight = torch.rand(8).to("npu")

    def layer(x: Tensor, residual: Tensor) -> Any:
        normed, total = ops.add_rms_norm(x, residual, weight, 1e-6)
        return ops.silu_and_mul(normed, -1), total

    run = torch.compile(layer, backend=backend_of_dlinfer(mode), fullgraph=True, dynamic=False)
    same_as_eager(run, layer, (torch.randn(3, 8).to("npu"), torch.randn(3, 8).to("npu")), repeat=3)


@pytest.mark.npu("the program of DLInfer is for NPUs")
def test_dlinfer_captures_the_whole_runner_with_torchs_own_graph() -> None:
    npu: Any = vars(torch)["npu"]
    weight, x = torch.rand(8).to("npu"), torch.randn(3, 8).to("npu")
    config: dict[str, Any] = {"force_eager": True, "clone_input": False}

    def layer(x: Tensor) -> Tensor:
        normed, total = ops.add_rms_norm(x, x, weight, 1e-6)
        result: Tensor = normed + total
        return result

    run = torch.compile(layer, backend="npugraph_ex", options=config, fullgraph=True, dynamic=False)
    with torch.no_grad():
        run(x)
        graph = npu.NPUGraph()
        with npu.graph(graph):
            out = run(x)
        for _ in range(2):
            x.normal_()
            graph.replay()
            assert_same(out, layer(x))
