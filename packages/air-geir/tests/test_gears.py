"""Gears: declared sizes of dynamic dims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func  # type: ignore[import-untyped]  # no annotations
from torch._dynamo.backends.common import aot_autograd

import air_geir
from air_fxpasses.errors import DeclarationRefused
from air_geir.errors import GearError
from air_geir.gears import find_gears, gear_options, get_dim_gears, set_dim_gears
from air_geir.ir import DataType, Graph, TensorDesc, symbol
from air_geir.program import ArgInput, GraphOutput, Program


def program(**shapes: tuple[object, ...]) -> Program:
    graph = Graph("g")
    ports = [graph.data(name, TensorDesc(DataType.FLOAT, shape)) for name, shape in shapes.items()]  # type: ignore[arg-type]  # sizes
    graph.output(ports)
    count = len(ports)
    return Program(graph, tuple(map(ArgInput, range(count))), tuple(map(GraphOutput, range(count))), count)


@pytest.mark.parametrize(
    ("gears", "text"),
    [
        ({2: [1, 2]}, "no dim of a tensor of rank 2"),
        ({0: 3}, "give a list"),
        ({0: [1]}, "has 1 gears"),
        ({0: [1, 1]}, "has 2 gears"),
        ({0: list(range(1, 102))}, "has 101 sizes"),
        ({0: [0, 2]}, "0 is no size for dim 0"),
        ({0: [1, 2.0]}, "2.0 is no size"),
        ({0: [True, 2]}, "True is no size"),
        ({True: [1, 8]}, "True is no dim"),
        ({0.0: [1, 8]}, "0.0 is no dim"),
        ({"0": [1, 8]}, "'0' is no dim"),
        ({None: [1, 8], 0: [1, 8]}, "None is no dim"),
        ({-1: [1, 8]}, "-1 is no dim"),
        ({0: [1, 10**30]}, "an int from 1 to 2147483647"),
        ({0: [1, float("nan")]}, "nan is no size"),
        ([1, 8], "names no dims"),
        (None, "names no dims"),
    ],
)
def test_impossible_gears_are_refused(gears: Any, text: str) -> None:
    with pytest.raises(DeclarationRefused, match=text):
        set_dim_gears(torch.zeros(2, 3), gears)


def test_gears_are_declared_once() -> None:
    tensor = torch.zeros(2, 3)
    set_dim_gears(tensor, {0: [2, 4]})
    set_dim_gears(tensor, {0: [2, 4]})
    with pytest.raises(DeclarationRefused, match="already"):
        set_dim_gears(tensor, {0: [2, 8]})
    assert get_dim_gears(tensor) == {0: (2, 4)}


def test_G16_zip_pairs_the_gears_and_inputs_stand_in_the_order_of_their_names() -> None:
    made = program(z=(symbol("s0"), 3), a=(5, symbol("s1")))
    options = gear_options(made, {0: {0: (1, 2)}, 1: {1: (10, 20)}}, "zip")
    assert options == {
        "ge.inputShape": "a:5,-1;z:-1,3",
        "ge.dynamicDims": "10,1;20,2",
        "ge.dynamicNodeType": "1",
    }


def test_inputs_that_share_a_symbol_move_together() -> None:
    made = program(a=(symbol("s0"), 3), b=(symbol("s0"), symbol("s1")), c=(symbol("s0") * 2,))
    options = gear_options(made, {0: {0: (1, 2)}, 1: {0: (1, 2), 1: (5, 6)}}, "product")
    assert options["ge.dynamicDims"] == "1,1,5,2;1,1,6,2;2,2,5,4;2,2,6,4"


def test_product_takes_every_combination_in_a_fixed_order() -> None:
    made = program(a=(symbol("s0"), symbol("s1")))
    options = gear_options(made, {0: {0: (1, 2), 1: (3, 4, 5)}}, "product")
    assert options["ge.dynamicDims"] == "1,3;1,4;1,5;2,3;2,4;2,5"


def test_gears_of_an_input_that_the_graph_does_not_read_change_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert gear_options(program(a=(2, 3)), {1: {0: (1, 2)}}, "zip") == {}
    assert caplog.text == ""


def test_gears_of_a_static_dim_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert gear_options(program(a=(2, 3)), {0: {0: (1, 2)}}, "zip") == {}
    assert "every dim of a is static" in caplog.text


def test_gears_are_left_out_with_a_warning_where_a_size_is_known_only_in_a_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = program(a=(symbol("s0"), 3), b=(symbol("offset") + symbol("s0"),))
    assert gear_options(made, {0: {0: (1, 2)}}, "zip") == {}
    assert "the gears are left out" in caplog.text
    assert "offset is known only in a call" in caplog.text


@pytest.mark.parametrize(
    ("gears", "policy", "text"),
    [
        ({0: {0: (1, 2), 1: (3, 4, 5)}}, "zip", "cannot be paired"),
        ({0: {0: tuple(range(1, 12)), 1: tuple(range(1, 12))}}, "product", "121 combinations"),
    ],
)
def test_combinations_that_cannot_be_made_are_refused(gears: Any, policy: str, text: str) -> None:
    with pytest.raises(GearError, match=text):
        gear_options(program(a=(symbol("s0"), symbol("s1"))), gears, policy)


def compiled(
    function: Callable[..., Any],
    seen: list[air_geir.Executable],
    found: list[Any] | None = None,
    dynamic: bool | None = None,
) -> Callable[..., Any]:
    def inner(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        if found is not None:
            found.append(find_gears(inputs))
        executable = air_geir.compile_graph(gm, inputs)
        seen.append(executable)
        return make_boxed_func(lambda *args: executable(*args))

    torch._dynamo.reset()
    return torch.compile(
        function, backend=aot_autograd(fw_compiler=inner, inference_compiler=inner), fullgraph=True
    )


def test_gears_are_found_behind_the_compiler_s_fake_tensors() -> None:
    seen: list[air_geir.Executable] = []
    found: list[Any] = []
    run = compiled(lambda x, w: torch.relu(x @ w), seen, found)
    x, w = torch.randn(2, 3), torch.randn(3, 3)
    set_dim_gears(x, {0: [2, 4, 8]})
    with torch.no_grad():
        torch.testing.assert_close(run(x, w), torch.relu(x @ w))
    (gears,) = found
    assert list(gears.values()) == [{0: (2, 4, 8)}]
    shapes = [n.output.desc.file_shape() for n in seen[0].program.graph.inputs]
    assert (-1, 3) in shapes
    assert all(-1 not in s[1:] for s in shapes)


def test_every_other_dim_becomes_static() -> None:
    seen: list[air_geir.Executable] = []
    run = compiled(lambda x, y: (x * 2).sum() + y.sum(), seen, dynamic=True)
    x, y = torch.randn(2, 3), torch.randn(2, 5)
    set_dim_gears(x, {0: [2, 4]})
    with torch.no_grad():
        torch.testing.assert_close(run(x, y), (x * 2).sum() + y.sum())
    shapes = [n.output.desc.file_shape() for n in seen[0].program.graph.inputs if n.output.desc.rank == 2]
    assert sorted(shapes) == [(-1, 3), (2, 5)]


def test_a_gear_is_served_by_the_graph_that_was_compiled() -> None:
    seen: list[air_geir.Executable] = []
    run = compiled(lambda x: x.softmax(-1) * x.shape[0], seen)
    with torch.no_grad():
        for rows in (2, 4, 8, 2):
            x = torch.randn(rows, 3)
            set_dim_gears(x, {0: [2, 4, 8]})
            torch.testing.assert_close(run(x), x.softmax(-1) * rows)
    assert len(seen) == 1


def test_a_size_that_is_no_gear_is_refused_with_the_gears() -> None:
    run = compiled(lambda x: x + 1, [])
    x = torch.randn(3, 3)
    set_dim_gears(x, {0: [2, 4]})
    with torch.no_grad(), pytest.raises(Exception, match=r"size 3 where gears \[2, 4\] were declared"):
        run(x)
