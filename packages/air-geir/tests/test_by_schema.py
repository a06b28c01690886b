"""Operators of CANN that have the signature of a torch operator: nothing to write by hand, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from air_config import CompilerConfig, Context, resolve
from air_geir import compile_graph, register_by_schema
from air_geir.converters import ConverterError, find, unregister
from air_geir.errors import PrototypeError, UnsupportedGraphError
from air_geir.proof import check_call, compile_call, trace
from air_geir.reference import Operator, kernel
from air_graph import register_hidden_writes

LIBRARY = torch.library.Library("geir_schema_test", "DEF")
LIBRARY.define("muls(Tensor x, float value) -> Tensor")
LIBRARY.impl("muls", lambda x, value: x * value, "CompositeExplicitAutograd")
LIBRARY.define(
    "blend_many(Tensor x, Tensor? bias, Tensor[] rest, *, SymInt times=2, bool flip=False) -> (Tensor, Tensor)"
)
LIBRARY.define("in_place(Tensor(a!) x) -> ()")
LIBRARY.define("hidden(Tensor x, Tensor cache) -> Tensor")
register_hidden_writes("geir_schema_test::hidden", ("cache",))
LIBRARY.define("maybe(Tensor x, int? axis=None) -> Tensor")
LIBRARY.define("list_out(Tensor x) -> Tensor[]")
OPS = torch.ops.geir_schema_test
MULS, MANY = OPS.muls.default, OPS.blend_many.default


def blend_many(
    x: torch.Tensor,
    bias: torch.Tensor | None,
    rest: list[torch.Tensor],
    *,
    times: int = 2,
    flip: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    total = sum(rest, x * times) + (0 if bias is None else bias)
    return (total, x.neg()) if flip else (x.neg(), total)


LIBRARY.impl("blend_many", blend_many, "CompositeExplicitAutograd")


@kernel("BlendMany")
def run_blend_many(op: Operator) -> Any:
    times, flip = op.attr("times"), op.attr("flip")
    return lambda x, bias, rest: blend_many(x, bias, rest, times=times, flip=flip)


@pytest.fixture
def registered() -> Iterator[None]:
    register_by_schema(MULS, "Muls")
    register_by_schema(MANY)
    yield
    unregister(MULS)
    unregister(MANY)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("dynamic", [False, True])
def test_an_operator_is_converted_by_its_schema_alone(dynamic: bool) -> None:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    check_call(MULS, (x, 2.5), {}, dynamic=dynamic)
    run = check_call(MANY, (x, y, [y, x]), {"times": 3, "flip": True}, dynamic=dynamic)
    check_call(MANY, (x, None, [y]), {}, dynamic=dynamic)
    (node,) = run.program.graph.of_type("BlendMany")
    assert str(node.prototype) == (
        "BlendMany(x, bias?, rest*) -> (y0, y1) {times: int = 2; flip: bool = False}"
    )


@pytest.mark.npu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("registered")
def test_an_operator_converted_by_its_schema_runs_on_the_graph_engine() -> None:
    pytest.importorskip("torch_npu")
    x = torch.randn(4)
    settings = resolve(CompilerConfig(), Context(device="npu"))
    run = compile_graph(trace(lambda x: [MULS(x, 2.5)], [x]), [x.to("npu")], settings=settings)
    torch.testing.assert_close(run(x.to("npu"))[0].cpu(), x * 2.5)


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (OPS.in_place.default, "writes to its arguments"),
        (OPS.hidden.default, "writes to its arguments"),
        (OPS.maybe.default, r"axis is Optional\[int\]"),
        (OPS.list_out.default, r"gives List\[Tensor\]"),
    ],
)
def test_a_schema_that_says_more_than_a_prototype_is_refused(op: torch._ops.OpOverload, why: str) -> None:
    with pytest.raises(ConverterError, match=why) as caught:
        register_by_schema(op)
    assert "write a converter" in str(caught.value)
    assert find(op) is None


def test_a_schema_that_contradicts_the_known_prototype_is_refused() -> None:
    with pytest.raises(PrototypeError, match="already described differently"):
        register_by_schema(MULS, "Add")
    assert find(MULS) is None


@pytest.mark.usefixtures("registered")
def test_an_attribute_known_only_at_run_time_is_refused() -> None:
    def call(x: torch.Tensor) -> object:
        return MANY(x, None, [x], times=x.shape[0])

    with pytest.raises(UnsupportedGraphError, match="times is known only at run time"):
        compile_call(call, (torch.randn(3),), {}, dynamic=True)
