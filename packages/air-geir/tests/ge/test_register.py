"""Converters written in TorchAir's style run unchanged, and are checked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from air_geir import ge, prototypes, register_fx_node_ge_converter
from air_geir.converters import ConverterError, find, unregister
from air_geir.errors import ConverterFailed, EngineError, PrototypeError, UnknownOperatorError
from air_geir.export import dynamo_export
from air_geir.ge import apis
from air_geir.proof import check_call, compile_call
from air_geir.reference.kernels import Operator, kernel

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


def test_a_converter_of_a_user_takes_the_place_of_airs_own_and_a_warning_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    target = torch.ops.aten.relu.default
    own = find(target)
    assert own is not None
    x = torch.randn(3)
    register_fx_node_ge_converter(target)(lambda self: ge.custom_op("Neg", self))
    try:
        assert "takes the place of AIR's own" in caplog.text
        run, tensors = compile_call(target, (x,), {})
        assert run(*tensors)[0].equal(-x)
    finally:
        unregister(target)
    assert find(target) is own


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


def converted(convert: Any, *args: Any) -> Any:
    """The graph that a converter of `affine` makes."""
    register_fx_node_ge_converter(AFFINE)(convert)
    try:
        return compile_call(AFFINE, args or (torch.randn(2, 3), 2.5, torch.randn(2, 3)), {})
    finally:
        unregister(AFFINE)


def test_an_operator_type_that_no_table_has_is_what_the_call_says() -> None:
    @kernel("GeirHcPost")
    def hc_post(op: Operator) -> Any:
        assert op.attr("mode") == "half"
        return lambda x, offset, bias: x * op.attr("scale") + offset if bias is None else bias

    def convert(x: Any, scale: float, offset: Any) -> Any:
        inputs = {"x": x, "offset": offset, "bias": None}
        attrs = {"scale": ge.attr.Float(scale), "mode": ge.attr.Str("half"), "unused": None}
        return ge.custom_op("GeirHcPost", inputs=inputs, outputs=["y"], attrs=attrs)

    register_fx_node_ge_converter(AFFINE)(convert)
    try:
        check_call(AFFINE, (torch.randn(2, 3), 2.5, torch.randn(2, 3)), {})
    finally:
        unregister(AFFINE)
    assert prototypes.find("GeirHcPost") is None


def test_such_a_type_given_by_position_needs_a_prototype() -> None:
    with pytest.raises(UnknownOperatorError, match="no prototype is known for operator type 'GeirNobody'"):
        converted(lambda x, scale, offset: ge.custom_op("GeirNobody", x, offset))
    with pytest.raises(UnknownOperatorError):
        converted(lambda x, scale, offset: ge.custom_op("GeirNobody", inputs={"x": x}))


def test_a_result_that_has_the_name_of_an_input_is_of_its_type() -> None:
    seen: list[torch.dtype] = []

    def convert(x: Any, scale: float, offset: Any) -> Any:
        half = ge.Cast(x, dst_type=torch.float16)
        made = ge.custom_op("GeirInPlace", inputs={"x": half, "w": offset}, outputs=["x", "z"])
        seen.extend(value.dtype for value in made)
        return made[1]

    with pytest.raises(EngineError, match="no kernel for 1 operator types: GeirInPlace"):
        converted(convert)
    assert seen == [torch.float16, torch.float32]


def test_operator_types_are_functions_with_the_names_of_their_prototypes() -> None:
    def convert(x: Any, scale: float, offset: Any) -> Any:
        return apis.Add(apis.Muls(x, value=scale), x2=offset)

    register_fx_node_ge_converter(AFFINE)(convert)
    try:
        check_call(AFFINE, (torch.randn(2, 3), 2.5, torch.randn(2, 3)), {})
    finally:
        unregister(AFFINE)
    with pytest.raises(AttributeError, match="'Addd'"):
        apis.Addd
    with pytest.raises(PrototypeError, match="x1 twice"):
        converted(lambda x, scale, offset: apis.Add(x, x1=x, x2=offset))
    with pytest.raises(PrototypeError, match="takes 2 inputs, and 3"):
        converted(lambda x, scale, offset: apis.Add(x, offset, offset))


def test_a_fault_in_such_a_converter_is_raised_with_its_line() -> None:
    def convert(x: Any, scale: float, offset: Any) -> Any:
        return x.nothing

    with pytest.raises(ConverterFailed, match=r"affine\.default raised AttributeError") as told:
        converted(convert)
    assert str(told.value.where).endswith("return x.nothing")


def test_such_a_type_is_exported_without_a_prototype(tmp_path: Path) -> None:
    def convert(x: Any, scale: float, offset: Any) -> Any:
        inputs, attrs = {"x": x, "offset": offset}, {"scale": ge.attr.Float(scale)}
        return ge.custom_op("GeirExported", inputs=inputs, outputs=["y"], attrs=attrs)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = AFFINE(x, 2.0, x)
            return result

    register_fx_node_ge_converter(AFFINE)(convert)
    try:
        dynamo_export(torch.randn(2, 3), model=Model(), export_path=str(tmp_path), export_name="model")
    finally:
        unregister(AFFINE)
    assert b"GeirExported" in (tmp_path / "model.air").read_bytes()
