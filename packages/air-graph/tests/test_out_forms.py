"""The overloads that write into given memory are found by schema, and only those that save something."""

from __future__ import annotations

import pytest
import torch
from torch._ops import OpOverload

from air_graph import out_form_of

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("functional", "out", "names"),
    [
        (aten.add.Tensor, aten.add.out, ("out",)),
        (aten.mean.dim, aten.mean.out, ("out",)),
        (aten.max.dim, aten.max.dim_max, ("max", "max_values")),
        (aten.topk.default, aten.topk.values, ("values", "indices")),
        (aten.pow.Tensor_Scalar, aten.pow.Tensor_Scalar_out, ("out",)),
    ],
)
def test_the_overload_with_the_same_arguments_is_taken(
    functional: OpOverload, out: OpOverload, names: tuple[str, ...]
) -> None:
    found = out_form_of(functional)
    assert found is not None
    assert (found.out, found.names) == (out, names)


@pytest.mark.parametrize(
    "functional", [aten.embedding.default, aten.native_layer_norm.default, aten.add_.Tensor]
)
def test_generated_and_in_place_overloads_do_not_count(functional: OpOverload) -> None:
    assert out_form_of(functional) is None


def test_a_kernel_of_another_device_does_not_count() -> None:
    assert out_form_of(aten.addr.default, "cpu") is not None
    assert out_form_of(aten.addr.default, "npu") is None
