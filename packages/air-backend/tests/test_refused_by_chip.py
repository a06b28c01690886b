"""Operators that the engine has no program for on the chip at hand: they run eagerly, and one warning says so."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import air_geir
from air_backend import CompilerConfig, _pieces, explain
from air_backend.errors import GraphSplit
from air_geir.building import Context, Value
from air_geir.converters import unregister
from air_geir.errors import UnsupportedGraphError

pytestmark = pytest.mark.npu("the engine of a device refuses operators of other chips")


@torch.library.custom_op("air_tests_chip::of_groups", mutates_args=())
def of_groups(x: Tensor, groups: int) -> Tensor:
    return nn.functional.group_norm(x, groups)


@of_groups.register_fake
def _(x: Tensor, groups: int) -> Tensor:
    return torch.empty_like(x)


@pytest.fixture(autouse=True)
def _converter() -> Iterator[None]:
    """A user's own converter, written for another chip."""

    @air_geir.converts(torch.ops.air_tests_chip.of_groups.default)
    def convert(ctx: Context, x: Value, groups: int) -> Value:
        one, none = (ctx.fill(x.dims[1:2], number, x.dtype) for number in (1, 0))
        y, *_ = ctx.emit_many(
            "GroupNormV2", x, one, none, num_groups=groups, data_format="NCHW", dtype=[x.dtype] * 3,
            shape=[x.shape, None, None],
        )  # fmt: skip
        return y

    yield
    unregister(torch.ops.air_tests_chip.of_groups.default)


def asked(**more: str) -> dict[str, Any]:
    return {"mode": "max-autotune", **more}


def model(x: Tensor) -> Tensor:
    y = torch.relu(x * 2)
    for groups in (1, 2):
        y = torch.ops.air_tests_chip.of_groups(y, groups) + 1
    return y.sin()


@pytest.mark.parametrize("engine", ["auto", "ge_session", "atc"])
def test_N23_what_the_chip_has_no_program_for_runs_eagerly_with_one_warning(engine: str) -> None:
    x, options = torch.randn(2, 4, 5, device="npu"), asked(engine=engine)
    _pieces._told.clear()
    compiled = torch.compile(model, backend="air", options=options, dynamic=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            torch.testing.assert_close(compiled(x), model(x))
    (split,) = (each for each in caught if issubclass(each.category, GraphSplit))
    assert "air_tests_chip.of_groups" in str(split.message)
    assert "no program for GroupNormV2 on this chip" in str(split.message)
    assert split.filename == __file__


def test_N23_the_report_of_such_a_graph_names_its_pieces() -> None:
    config = CompilerConfig()
    config.mode = "max-autotune"
    report = explain(model, torch.randn(2, 4, 5, device="npu"), compiler_config=config)
    assert "no program for GroupNormV2" in str(report)


def test_N23_where_an_error_is_asked_for_it_is_one() -> None:
    compiled = torch.compile(model, backend="air", options=asked(unsupported="error"), dynamic=False)
    with pytest.raises(
        UnsupportedGraphError, match=r"of_groups.* \(2x\): the engine has no program for GroupNormV2"
    ):
        compiled(torch.randn(2, 4, 5, device="npu"))
