"""The generator of the structural table, on entries made up for the purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from air_sim.opgen import aten_functions, defined_in, exported, named_by, probed_by, structural

FUNCTIONS = aten_functions()


def entry(func: str, execute: str) -> dict[str, object]:
    return {"func": func, "gen_opapi": {"exec": execute}}


def test_a_function_with_out_becomes_a_call_of_its_functional_twin() -> None:
    found = structural(
        [entry("acos.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", "aclnnAcos")], FUNCTIONS
    )
    assert found.rows == {"Acos": "Acos(T self, T out): out = acos(self)"}


def test_an_inplace_function_has_no_result() -> None:
    found = structural([entry("acos_(Tensor(a!) self) -> Tensor(a!)", "aclnnInplaceAcos")], FUNCTIONS)
    assert found.rows == {"InplaceAcos": "InplaceAcos(T self): acos_(self)"}


def test_the_order_of_the_arguments_is_the_order_of_the_aclnn_function() -> None:
    func = "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor"
    found = structural([entry(func, "aclnnRoll, dims, self, shifts, out")], FUNCTIONS)
    assert found.rows == {"Roll": "Roll(I dims, T self, I shifts, T out): out = roll(self, shifts, dims)"}


@pytest.mark.parametrize(
    ("func", "execute", "reason"),
    [
        ("npu_nothing(Tensor self) -> Tensor", "aclnnNothing", "not an ATen function"),
        ("acos(Tensor self) -> Tensor", "aclnnAcos, self, other(self), out", "an expression of op-plugin's"),
        ("tril(Tensor self, int diagonal=0) -> Tensor", "aclnnTril, self, out", "is not passed"),
        (
            "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor, Tensor, Tensor)",
            "aclnnSvd, self, a, b, c",
            "is not passed",
        ),
    ],
)
def test_what_an_entry_does_not_tell_is_a_reason_and_not_a_guess(
    func: str, execute: str, reason: str
) -> None:
    found = structural([entry(func, execute)], FUNCTIONS)
    assert not found.rows
    assert [reason in why for why in found.skipped.values()] == [True]


def test_names_are_strings_of_their_own_in_the_library(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(b"\0aclnnAdd\0aclnnAddGetWorkspaceSize\0text aclnnNot here\0aclnnNonL\0")
    assert named_by([library]) == {"Add"}


def test_a_probed_version_is_exported_only_when_it_is_defined(tmp_path: Path) -> None:
    source = tmp_path / "a.cpp"
    source.write_text('check_aclnn_kernel_available("aclnnAddV9") check_aclnn_kernel_available("aclnnSubV9")')
    probed = probed_by([source])
    assert exported({"Add", "AddV9", "SubV9"}, probed, {"SubV9"}) == ["Add", "SubV9"]


def test_definitions_are_found_in_rows_kernels_and_macros(tmp_path: Path) -> None:
    source = tmp_path / "rows.cpp"
    source.write_text(
        '    "Add(T a): x()",\n    {"Sub(T a)", f},\n    {"Mul" ARGS "T! out)", f},\n'
        "    UNARY(Abs, abs), SCALARS(Div, div)"
    )
    assert defined_in([source]) == {
        "Add", "Sub", "Mul", "ForeachAbs", "ForeachDivScalar", "ForeachDivScalarV2", "ForeachDivScalarList",
    }  # fmt: skip
