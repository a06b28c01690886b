"""Converters written in TorchAir's style run unchanged, and are checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from air_geir import ge, prototypes, register_fx_node_ge_converter
from air_geir.converters import ConverterError, unregister
from air_geir.errors import PrototypeError
from air_geir.proof import check_call, compile_call

LIBRARY = torch.library.Library("geir_ge_test", "DEF")
LIBRARY.define("affine(Tensor x, float scale, Tensor offset) -> Tensor")
LIBRARY.impl("affine", lambda x, scale, offset: x * scale + offset, "CompositeExplicitAutograd")
LIBRARY.impl("affine", lambda x, scale, offset: torch.empty_like(x), "Meta")
AFFINE = torch.ops.geir_ge_test.affine.default


@pytest.fixture
def seen() -> Iterator[list[Any]]:
    specs: list[Any] = []

    @register_fx_node_ge_converter(AFFINE)
    def affine(x: Any, scale: float, offset: Any, meta_outputs: Any = None) -> Any:
        specs.append(meta_outputs)
        scaled = ge.custom_op("Muls", inputs={"x": x}, attrs={"value": ge.attr.Float(scale)}, outputs=["y"])
        return ge.custom_op("Add", scaled, offset)

    yield specs
    unregister(AFFINE)


def test_a_converter_without_context_builds_operators(seen: list[Any]) -> None:
    check_call(AFFINE, (torch.randn(2, 3), 2.5, torch.randn(2, 3)), {})
    assert (seen[0].dtype, seen[0].rank, seen[0].size) == (0, 2, [2, 3])


def test_the_size_of_a_dynamic_result_is_refused(seen: list[Any]) -> None:
    compile_call(AFFINE, (torch.randn(2, 3), 2.5, torch.randn(2, 3)), {}, dynamic=True)
    with pytest.raises(AssertionError, match="known only at run time"):
        assert seen[0].size


def test_a_second_converter_is_refused(seen: list[Any]) -> None:
    with pytest.raises(ConverterError, match="already has a converter"):
        register_fx_node_ge_converter(AFFINE)(lambda x, scale, offset: x)


def test_an_operator_that_does_not_exist_registers_nothing() -> None:
    def convert(x: Any) -> Any:
        return x

    assert register_fx_node_ge_converter(None)(convert) is convert


def test_a_prototype_of_your_own_is_checked_when_the_node_is_built() -> None:
    prototypes.register("GeirTestOp(x, bias?) -> y {alpha: float = 1.0}")

    def wrong(x: Any, scale: float, offset: Any) -> Any:
        return ge.custom_op("GeirTestOp", inputs={"x": x, "weight": offset})

    register_fx_node_ge_converter(AFFINE)(wrong)
    try:
        with pytest.raises(PrototypeError, match="no input weight"):
            compile_call(AFFINE, (torch.randn(2), 1.0, torch.randn(2)), {})
    finally:
        unregister(AFFINE)


def test_lists_of_strings_reach_the_graph() -> None:
    attr = ge.attr.ListStr(["a", "b"])
    assert attr.value == ("a", "b")
    assert attr.kind.value == "strs"
