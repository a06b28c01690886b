"""xpu_graph: a compiler over torchair.get_compiler, whose results are pickled for the next process."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from as_eager import assert_same


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.linear(x).relu().softmax(-1)
        return result


def set_all(values: dict[str, Any], target: Any) -> None:
    """Options of a dictionary, put where they belong; what is unknown is not an option of torchair's."""
    for key, value in values.items():
        if isinstance(value, dict):
            set_all(value, getattr(target, key))
        elif hasattr(target, key):
            setattr(target, key, value)


def compiled_by_xpu_graph(module: Any, inputs: list[Tensor], **options: Any) -> Any:
    from torchair._utils import get_npu_default_decompositions  # type: ignore[import-not-found]

    import torchair  # type: ignore[import-not-found]

    importlib.import_module("torchair.ge_concrete_graph.ge_converter.experimental.patch_for_hcom_allreduce")
    config = torchair.configs.compiler_config.CompilerConfig()
    set_all(options, config)
    config.mode = options.get("mode", "reduce-overhead")
    traced = make_fx(
        module,
        decomposition_table=get_npu_default_decompositions(),
        tracing_mode="fake",
        record_module_stack=True,
    )(*inputs)
    return torchair.get_compiler(compiler_config=config)(traced, inputs)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_xpu_graph_compiles_a_traced_module_with_get_compiler(mode: str) -> None:
    module, x = Head(), torch.randn(3, 8)
    weights = dict(module.named_parameters())

    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Any:
        return torch.func.functional_call(module, {"linear.weight": weight, "linear.bias": bias}, (x,))

    inputs = [x, weights["linear.weight"].detach(), weights["linear.bias"].detach()]
    run = compiled_by_xpu_graph(call, inputs, mode=mode)
    with torch.no_grad():
        for _ in range(3):
            assert_same(run(*inputs), module(x))


def test_xpu_graph_pickles_the_artifacts_and_the_next_process_loads_them() -> None:
    from torchair.npu_fx_compiler import _CompiledFxGraph  # type: ignore[import-not-found]

    inputs = [torch.randn(2, 3), torch.randn(3, 2)]
    run = compiled_by_xpu_graph(lambda x, y: (x @ y).tanh(), inputs)
    kept = pickle.dumps(run.dump_artifacts())
    again = _CompiledFxGraph.load_artifacts(pickle.loads(kept))
    for _ in range(2):
        assert_same(again(*inputs), run(*inputs))


def test_xpu_graph_sets_nested_options_from_a_dictionary() -> None:
    options = {
        "experimental_config": {"frozen_parameter": True},
        "debug": {"aclgraph": {"clone_input": False}},
    }
    inputs = [torch.randn(4)]
    run = compiled_by_xpu_graph(lambda x: x * 2, inputs, **options)
    assert_same(run(*inputs), inputs[0] * 2)


@pytest.mark.npu("the program of XPU-Graph is for NPUs")
def test_xpu_graph_gives_a_pool_of_its_own() -> None:
    pool = vars(torch)["npu"].graph_pool_handle()
    inputs = [torch.randn(4, 4, device="npu")]
    run = compiled_by_xpu_graph(lambda x: x @ x, inputs, aclgraph_config={"use_custom_pool": pool})
    for _ in range(3):
        assert_same(run(*inputs), inputs[0] @ inputs[0])


@pytest.mark.npu("the program of XPU-Graph is for NPUs")
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_xpu_graph_compiles_a_module_through_the_backend_itself(mode: str) -> None:
    import torchair

    config = torchair.CompilerConfig()
    if mode == "reduce-overhead":
        config.mode = mode
    else:
        config.experimental_config.keep_inference_input_mutations = True
        config.experimental_config.frozen_parameter = True
    backend = torchair.get_npu_backend(compiler_config=config)
    module, x = Head().to("npu").eval(), torch.randn(3, 8, device="npu")
    run = torch.compile(module, backend=lambda graph, inputs: backend(graph, inputs), dynamic=False)
    with torch.no_grad():
        for _ in range(3):
            assert_same(run(x), module(x))
