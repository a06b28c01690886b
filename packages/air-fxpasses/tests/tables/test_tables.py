"""Registries: derived from schemas, extended by rows, and never against a schema."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from air_fxpasses import (
    out_twin_of,
    register_inplace_twin,
    register_out_twin,
    register_updatable,
    registered_inplace_twins,
    registered_updatable,
    twin_of,
    updatable_of,
)
from air_fxpasses.errors import BadRegistration
from air_fxpasses.tables import unregister_updatable

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("functional", "inplace"),
    [
        (aten.add.Tensor, aten.add_.Tensor),
        (aten.relu.default, aten.relu_.default),
        (aten.index_put.default, aten.index_put_.default),
        (aten.copy.default, aten.copy_.default),
        (aten._foreach_add.Scalar, aten._foreach_add_.Scalar),
        (aten.normal_functional.default, aten.normal_.default),
    ],
)
def test_twins_follow_from_the_schemas(functional: object, inplace: object) -> None:
    twin = twin_of(functional)
    assert twin is not None
    assert twin.inplace is inplace


@pytest.mark.parametrize(
    "op", [aten.add_.Tensor, aten.squeeze.default, aten.t.default, aten.mm.default, aten.detach.default, len]
)
def test_views_writes_and_operators_without_an_in_place_form_have_no_twin(op: object) -> None:
    assert twin_of(op) is None


def test_out_twins_are_those_with_a_kernel_of_their_own() -> None:
    twin = out_twin_of(aten.mm.default)
    assert twin is not None
    assert (twin.out, twin.name) == (aten.mm.out, "out")
    assert out_twin_of(aten.pixel_shuffle.default) is None


@pytest.mark.parametrize(
    ("register", "problem"),
    [
        (
            lambda: register_inplace_twin("aten::relu", "aten::relu_", ("other",)),
            "writes ['self'], the row names",
        ),
        (lambda: register_inplace_twin("aten::relu", "aten::add_.Tensor", ("self",)), "takes 1 arguments"),
        (lambda: register_inplace_twin("aten::relu_", "aten::relu_", ("self",)), "writes its arguments"),
        (lambda: register_inplace_twin("aten::relu", "aten::relu_", ()), "0 results are named"),
        (lambda: register_inplace_twin("relu", "aten::relu_", ("self",)), "write 'namespace::operator'"),
        (
            lambda: register_inplace_twin("aten::normal_functional", "aten::normal_", ("self",)),
            "registered already",
        ),
        (lambda: register_out_twin("aten::relu", "aten::relu"), "writes nothing"),
        (lambda: register_out_twin("aten::mm", "aten::add.out"), "takes 2 arguments, aten.add.out takes 3"),
        (lambda: register_updatable("aten::relu", ("length",)), "has no parameter length"),
        (lambda: register_updatable("aten::relu", ()), "is given no parameter"),
    ],
)
def test_a_row_that_contradicts_a_schema_is_refused(register: Callable[[], None], problem: str) -> None:
    with pytest.raises(BadRegistration) as caught:
        register()
    assert problem in str(caught.value)


def test_rows_of_operators_that_are_not_loaded_wait() -> None:
    names = {row[0] for row in registered_inplace_twins()}
    assert "npu::npu_kv_rmsnorm_rope_cache_v2_functional.default" in names
    assert "npu::npu_fused_infer_attention_score.default" in {row.operator for row in registered_updatable()}


def test_updatable_parameters_are_found_by_operator_with_their_place_in_a_call() -> None:
    register_updatable("aten::narrow", ("start", "length"))
    try:
        row = updatable_of(aten.narrow.default)
        assert row is not None
        assert row.positions(aten.narrow.default) == (2, 3)
    finally:
        unregister_updatable("aten::narrow")
    assert updatable_of(aten.narrow.default) is None
