"""SGLang: the backend of its NPU graph runners, for a whole model and for pieces."""

from __future__ import annotations

import importlib
import pathlib
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from as_eager import assert_same, same_as_eager

OPTIONS = {
    "frozen_parameter": True,
    "tiling_schedule_optimize": True,
    "topology_sorting_strategy": "StableRDFS",
}


def backend_of_sglang(mode: str | None = None) -> Any:
    import torchair  # type: ignore[import-not-found]

    importlib.import_module("torchair.ge_concrete_graph.ge_converter.experimental.patch_for_hcom_allreduce")
    config = torchair.configs.compiler_config.CompilerConfig()
    for name, value in OPTIONS.items():
        setattr(config.experimental_config, name, value)
    if mode is not None:
        config.mode = mode
    return torchair.get_npu_backend(compiler_config=config)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(16)
        self.up = nn.Linear(16, 64, bias=False)
        self.down = nn.Linear(32, 16, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.up(self.norm(x)).chunk(2, -1)
        result: Tensor = x + self.down(torch.nn.functional.silu(gate) * up)
        return result


def test_sglang_sets_options_by_name_and_compiles_for_the_engine() -> None:
    block = Block()
    run = torch.compile(block, backend=backend_of_sglang(), fullgraph=True, dynamic=False)
    same_as_eager(run, block, (torch.randn(2, 16),), (torch.randn(5, 16),))


def test_sglang_decodes_with_dynamic_sizes() -> None:
    block = Block()
    run = torch.compile(block, backend=backend_of_sglang(), dynamic=True)
    same_as_eager(run, block, *((torch.randn(n, 16),) for n in (2, 3, 7)))


def test_sglang_lets_functions_of_python_into_the_graph() -> None:
    torch.compiler.allow_in_graph(sys.intern)
    torch.compiler.allow_in_graph(pathlib.Path)
    block = Block()
    run = torch.compile(block, backend=backend_of_sglang("reduce-overhead"), fullgraph=True, dynamic=False)
    same_as_eager(run, block, (torch.randn(2, 16),), repeat=3)


def test_sglang_gives_each_batch_size_a_compilation_of_its_own() -> None:
    block = Block()
    runs = {
        size: torch.compile(
            block, backend=backend_of_sglang("reduce-overhead"), fullgraph=True, dynamic=False
        )
        for size in (1, 2, 4)
    }
    for size in (4, 1, 2, 4, 1):
        x = torch.randn(size, 16)
        with torch.no_grad():
            assert_same(runs[size](x), block(x))


class PassThrough:
    """A backend that looks at the graph first, as the piecewise compiler does."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.graphs = inner, 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        graph.graph.lint()
        return self.inner(graph, inputs)


def test_sglang_wraps_the_backend_in_one_of_its_own() -> None:
    block, backend = Block(), PassThrough(backend_of_sglang("reduce-overhead"))
    run = torch.compile(block, backend=backend, fullgraph=True, dynamic=False)
    same_as_eager(run, block, (torch.randn(3, 16),), repeat=3)
    assert backend.graphs == 1


@pytest.mark.npu("the program of SGLang on Ascend is for NPUs")
def test_sglang_captures_what_the_npugraph_ex_backend_has_compiled_eagerly() -> None:
    npu: Any = vars(torch)["npu"]
    block, x = Block().to("npu"), torch.randn(2, 16, device="npu")
    options: dict[str, Any] = {"force_eager": True, "clone_input": False}
    run = torch.compile(block, backend="npugraph_ex", options=options, fullgraph=True, dynamic=False)
    with torch.no_grad():
        run(x)
        graph = npu.NPUGraph()
        with npu.graph(graph):
            result = run(x)
        for _ in range(3):
            x.normal_()
            graph.replay()
            assert_same(result, block(x))


@pytest.mark.npu("the program of SGLang on Ascend is for NPUs")
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_sglang_decodes_on_the_device(mode: str) -> None:
    block = Block().to("npu")
    run = torch.compile(block, backend=backend_of_sglang(mode), fullgraph=True, dynamic=False)
    same_as_eager(run, block, (torch.randn(2, 16, device="npu"),), repeat=3)
