"""CANN's ops-transformer: converters that define an operator and its prototype beside the call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from air_geir.converters import unregister
from air_geir.reference.kernels import Operator, kernel
from as_eager import same_as_eager

LIBRARY = torch.library.Library("ops_transformer_like", "DEF")
LIBRARY.define(
    "batching(Tensor x, int expert_num, Tensor? offset=None, *, bool flag=False) -> (Tensor, Tensor)"
)


def batching(
    x: Tensor, expert_num: int, offset: Tensor | None = None, *, flag: bool = False
) -> tuple[Tensor, Tensor]:
    shifted = x * expert_num + (0 if offset is None else offset)
    return -shifted if flag else shifted, x.sum(-1)


LIBRARY.impl("batching", batching, "CompositeExplicitAutograd")
LIBRARY.impl("batching", batching, "Meta")
BATCHING = torch.ops.ops_transformer_like.batching.default


@kernel("OpsTransformerBatching")
def run_batching(op: Operator) -> Any:
    number, flag = op.attr("expert_num"), op.attr("flag")

    def run(x: Tensor, offset: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return batching(x, number, offset, flag=flag)

    return run


@pytest.fixture
def converter() -> Iterator[None]:
    from torchair._ge_concrete_graph.compat_ir import (  # type: ignore[import-not-found]
        IrDef,
        ge_op,
        is_cann_compat,
    )
    from torchair._ge_concrete_graph.fx2ge_converter import (  # type: ignore[import-not-found]
        register_fx_node_ge_converter,
    )
    from torchair.ge import attr  # type: ignore[import-not-found]
    from torchair.ge._ge_graph import auto_convert_to_tensor  # type: ignore[import-not-found]

    @auto_convert_to_tensor([False, False], [False, True])  # type: ignore[untyped-decorator]
    def build(x: Any, offset: Any, *, expert_num: int, flag: bool = False) -> Any:
        assert not is_cann_compat("OpsTransformerBatching", runtime_optional_attrs=("flag",))
        definition = (
            IrDef("OpsTransformerBatching").input("x", "DT_FLOAT").optional_input("offset", "DT_FLOAT")
        )
        definition.required_attr("expert_num", attr.Int).attr("flag", attr.Bool(False))
        return ge_op(
            op_type="OpsTransformerBatching",
            inputs={"offset": offset, "x": x},
            attrs={"expert_num": attr.Int(expert_num), "flag": attr.Bool(flag)},
            outputs=["y", "sums"],
            ir=definition.output("y", "DT_FLOAT").output("sums", "DT_FLOAT"),
        )

    def convert(
        x: Any, expert_num: int, offset: Any = None, *, flag: bool = False, meta_outputs: Any = None
    ) -> Any:
        return build(x, offset, expert_num=expert_num, flag=flag)

    register_fx_node_ge_converter(BATCHING)(convert)
    yield
    unregister(BATCHING)


@pytest.mark.parametrize("with_offset", [False, True])
def test_ops_transformer_defines_an_operator_beside_its_call(converter: None, with_offset: bool) -> None:
    import torchair  # type: ignore[import-not-found]

    def layer(x: Tensor, offset: Tensor) -> Any:
        found, sums = BATCHING(x.relu(), 3, offset if with_offset else None, flag=True)
        return found + 1, sums

    backend = torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    run = torch.compile(layer, backend=backend, fullgraph=True, dynamic=False)
    same_as_eager(run, layer, (torch.randn(2, 4), torch.randn(4)))
