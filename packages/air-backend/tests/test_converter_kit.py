"""The import headers of converters written for TorchAir work where AIR stands in, and what they import does its job."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from air_backend import _alias
from air_geir.converters import unregister
from air_geir.reference.kernels import Operator, kernel

LIBRARY = torch.library.Library("air_kit_test", "DEF")
LIBRARY.define("hc_post(Tensor x, Tensor residual, float eps) -> Tensor")
LIBRARY.impl("hc_post", lambda x, residual, eps: x * 2 + residual + eps, "CompositeExplicitAutograd")
LIBRARY.impl("hc_post", lambda x, residual, eps: torch.empty_like(x), "Meta")
HC_POST = torch.ops.air_kit_test.hc_post.default


@kernel("KitHcPost")
def run_hc_post(op: Operator) -> Any:
    return lambda x, residual, bias: x * 2 + residual + op.attr("eps")


@pytest.fixture(autouse=True)
def in_place() -> Iterator[None]:
    torch._dynamo.reset()
    _alias.install_as_torchair()
    yield
    _alias.uninstall()


@pytest.mark.parametrize(
    "header",
    [
        # cann-recipes: the converters of its operators, ops/ascendc/torch_ops_extension
        "from torchair._ge_concrete_graph import ge_apis as ge\\n"
        "from torchair._ge_concrete_graph.fx2ge_converter import declare_supported, register_fx_node_ge_converter\\n"
        "from torchair.ge._ge_graph import Tensor, TensorSpec, DataType\\n"
        "from torchair._ge_concrete_graph.supported_declaration import _TypedTensor, F32, F16, F64, I32, I16, I64, I8, "
        "U8, BOOL, Support\\n"
        "from torchair._ge_concrete_graph.utils import dtype_promote\\n"
        "from torchair.ge import attr",
        "import torchair.ge.attr as attr\\nfrom torchair.ge.attr import Int, ListStr",
        # older programs: cann-recipes, xpu_graph
        "from torchair.ge_concrete_graph import ge_apis as ge\\n"
        "from torchair.ge_concrete_graph.fx2ge_converter import register_fx_node_ge_converter\\n"
        "from torchair.ge_concrete_graph.ge_graph import Tensor, TensorSpec, DataType",
        # vLLM-Ascend 0.9, dlinfer
        "import torchair._contrib.custom_torch_ops",
        "import torchair.ge_concrete_graph.ge_converter.experimental.patch_for_hcom_allreduce",
    ],
)
def test_the_import_headers_of_clients_work(header: str) -> None:
    exec(header.replace("\\n", "\n"), {})


def test_a_module_of_the_kit_that_is_not_here_is_an_error_with_its_name() -> None:
    with pytest.raises(
        ModuleNotFoundError, match=r"has no module 'torchair\._ge_concrete_graph\.graph_pass'"
    ):
        importlib.import_module("torchair._ge_concrete_graph.graph_pass")
    with pytest.raises(ModuleNotFoundError, match="has no module"):
        importlib.import_module("torchair.nowhere.at_all")


def test_cann_recipes_converter_of_an_operator_without_prototype_runs_in_max_autotune() -> None:
    torchair = importlib.import_module("torchair")
    fx2ge = importlib.import_module("torchair._ge_concrete_graph.fx2ge_converter")
    declared = importlib.import_module("torchair._ge_concrete_graph.supported_declaration")
    attr = torchair.ge.attr

    @fx2ge.declare_supported([declared.Support(declared.F32(2, 3), declared.F32(2, 3), 0.5)])  # type: ignore[untyped-decorator]
    @fx2ge.register_fx_node_ge_converter(HC_POST)  # type: ignore[untyped-decorator]
    def convert(x: Any, residual: Any, eps: float, meta_outputs: Any = None) -> Any:
        return torchair.ge.custom_op(
            "KitHcPost",
            inputs={"x": x, "residual": residual, "bias": None},
            attrs={"eps": attr.Float(eps)},
            outputs=["y"],
        )

    def model(x: Tensor) -> Tensor:
        return torch.relu(torch.ops.air_kit_test.hc_post(x, x + 1, 0.5))

    config = torchair.CompilerConfig()
    config.air.unsupported = "error"
    try:
        compiled = torch.compile(
            model, backend=torchair.get_npu_backend(compiler_config=config), dynamic=True
        )
        with torch.no_grad():
            for size in (2, 2, 5):
                x = torch.randn(size, 3)
                torch.testing.assert_close(compiled(x), model(x))
    finally:
        unregister(HC_POST)
    assert convert.supported_cases[0].args[0].dtype is torch.float32


def test_a_converter_that_promotes_types_and_calls_operators_as_functions_equals_eager() -> None:
    ge = importlib.import_module("torchair._ge_concrete_graph.ge_apis")
    fx2ge = importlib.import_module("torchair._ge_concrete_graph.fx2ge_converter")
    dtype_promote = importlib.import_module("torchair._ge_concrete_graph.utils").dtype_promote
    types = importlib.import_module("torchair.ge._ge_graph").DataType
    assert fx2ge.torch_type_to_ge_type(torch.float16) == types.DT_FLOAT16

    @fx2ge.register_fx_node_ge_converter(HC_POST)  # type: ignore[untyped-decorator]
    def convert(x: Any, residual: Any, eps: float, meta_outputs: Any = None) -> Any:
        x, residual, shift = dtype_promote(x, residual, eps, target_dtype=meta_outputs.dtype)
        return ge.Add(ge.Add(ge.Muls(x, value=2.0), residual), shift)

    def model(x: Tensor) -> Tensor:
        result: Tensor = torch.ops.air_kit_test.hc_post(x, x + 1, 0.5)
        return result

    try:
        compiled = torch.compile(
            model, backend="air", options={"mode": "max-autotune", "air.unsupported": "error"}
        )
        with torch.no_grad():
            x = torch.randn(2, 3)
            torch.testing.assert_close(compiled(x), model(x))
    finally:
        unregister(HC_POST)
