"""Operators of packages of custom operators are converted by name and arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import air_geir
from air_geir.auto import _convert, automatic, known_operators
from air_geir.converters import converts, unregister
from air_geir.errors import CannotConvert
from air_geir.proof import compile_call
from air_graph import register_hidden_writes

DESCRIBED: dict[str, Any] = {
    "Muls": {  # what air-sim can run
        "input0": {"name": "x", "paramType": "required", "dtype": "float16,float", "format": "ND,ND"},
        "attr": {"list": "value"},
        "attr_value": {"type": "float", "paramType": "optional", "defaultValue": "1.0", "value": "all"},
        "output0": {"name": "y", "paramType": "required", "dtype": "float16,float"},
        "opFile": {"value": "muls"},
    },
    "TopTwo": {
        "input0": {"name": "x", "paramType": "required"},
        "input1": {"name": "mask", "paramType": "optional"},
        "attr": {"list": "axes,largest,mode"},
        "attr_axes": {"type": "listInt", "paramType": "required"},
        "attr_largest": {"type": "bool", "paramType": "optional", "defaultValue": "true"},
        "attr_mode": {"type": "str", "paramType": "optional", "defaultValue": "exact"},
        "output0": {"name": "values", "paramType": "required"},
        "output1": {"name": "places", "paramType": "required"},
    },
    "Unheard": {"input0": {"name": "x"}, "attr": {"list": "k"}, "attr_k": {"type": "tensorOfTensors"}},
}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of custom operators, where CANN looks for one."""
    folder = tmp_path / "vendors" / "shop" / "op_impl" / "ai_core" / "tbe" / "config" / "ascend910b"
    folder.mkdir(parents=True)
    file = folder / "aic-ascend910b-ops-info.json"
    file.write_text(json.dumps(DESCRIBED))
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(tmp_path / "vendors" / "shop"))
    _convert._made.clear()
    yield file
    _convert._made.clear()


@pytest.fixture(scope="module", autouse=True)
def operators() -> Iterator[None]:
    with torch.library._scoped_library("shop", "FRAGMENT") as library:
        library.define("muls(Tensor a, float factor=1.0) -> Tensor")
        library.define(
            "npu_top_two(Tensor x, Tensor? mask, int[] axes, bool largest=True, str mode='exact') -> (Tensor, Tensor)"
        )
        library.define("unheard(Tensor x, int k) -> Tensor")
        library.define("npu_muls(Tensor a, float factor) -> Tensor")
        register_hidden_writes("shop::npu_muls", ("a",))
        library.define("absent(Tensor x) -> Tensor")
        library.define("muls.more(Tensor a, float factor, int times) -> Tensor")
        library.define("muls.any(Tensor a, Scalar factor) -> Tensor")
        library.define("muls_(Tensor(a!) a, float value) -> Tensor(a!)")
        library.impl("muls", lambda a, factor=1.0: a * factor, "CompositeExplicitAutograd")
        torch.library.register_fake("shop::muls", lambda a, factor=1.0: torch.empty_like(a), lib=library)
        yield


def test_packages_are_read_where_cann_looks_for_them(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(known_operators()["Muls"]) == "Muls(x) -> y {value: float = 1.0}"
    assert str(known_operators()["TopTwo"]) == (
        "TopTwo(x, mask?) -> (values, places) {axes: ints; largest: bool = True; mode: str = 'exact'}"
    )
    assert "Unheard" not in known_operators()
    monkeypatch.delenv("ASCEND_CUSTOM_OPP_PATH")
    assert not known_operators()
    monkeypatch.setenv("ASCEND_OPP_PATH", str(package.parents[7]))
    assert "Muls" in known_operators()


def test_an_operator_becomes_the_one_of_its_name_with_arguments_in_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO", logger="air_geir"):
        converter = automatic(torch.ops.shop.muls.default)
    assert converter is not None
    assert (
        "shop.muls.default becomes Muls(x) -> y {value: float} of CANN by itself: x=a, value=factor"
        in caplog.text
    )
    assert automatic(torch.ops.shop.npu_top_two.default) is not None


def test_it_computes_what_the_operator_computes() -> None:
    converter = automatic(torch.ops.shop.muls.default)
    assert converter is not None
    converts("shop.muls.default")(converter.function)
    try:
        x = torch.rand(3, 4)
        run, tensors = compile_call(torch.ops.shop.muls.default, (x, 2.5), {})
        torch.testing.assert_close(run(*tensors)[0], x * 2.5)
    finally:
        unregister("shop.muls.default")


@pytest.mark.parametrize("name", ["absent", "unheard"])
def test_an_operator_that_no_package_describes_is_left_to_others(name: str) -> None:
    assert automatic(getattr(torch.ops.shop, name).default) is None


def test_operators_of_torch_are_never_taken_by_their_name() -> None:
    assert automatic(torch.ops.aten.add.Tensor) is None
    assert automatic(print) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("muls.more", "its attributes are factor, times"),
        ("muls.any", "a number of any type"),
        ("npu_muls.default", "it writes its arguments"),
    ],
)
def test_an_operator_with_the_name_and_other_arguments_is_refused(name: str, why: str) -> None:
    packet, _, overload = name.partition(".")
    with pytest.raises(CannotConvert, match=why):
        automatic(getattr(getattr(torch.ops.shop, packet), overload))


def test_on_the_cpu_such_an_operator_runs_eagerly_as_before() -> None:
    def program(x: Tensor) -> Tensor:
        made: Tensor = torch.ops.shop.muls(x + 1, 3.0)
        return made * 2

    x = torch.rand(3)
    gm = make_fx(lambda x: (program(x),), tracing_mode="fake")(x)
    run = air_geir.compile_graph(gm, [x], engine="reference", fallback="eager")
    torch.testing.assert_close(run(x)[0], program(x))
    assert [each.target for each in run.eager] == ["shop.muls.default"]


@pytest.mark.npu
def test_on_a_device_it_is_a_node_of_the_graph() -> None:
    x = torch.rand(3, device="npu")
    gm = make_fx(lambda x: (torch.ops.shop.muls(x + 1, 3.0) * 2,), tracing_mode="fake")(x)
    run = air_geir.compile_graph(gm, [x])
    torch.testing.assert_close(run(x)[0].cpu(), ((x + 1) * 3 * 2).cpu())
    assert isinstance(run, air_geir.Executable)
    assert "Muls" in [node.op_type for node in run.program.graph]
