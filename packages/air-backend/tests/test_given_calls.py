"""Calls of a graph that a caller made: each gives what the graph gives uncompiled, in whatever state it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch._dynamo.utils import counters
from torch.export import export
from torch.fx.experimental.proxy_tensor import make_fx

from air_backend import compile_fx, npugraph_ex

MODES = ("reduce-overhead", "max-autotune")
Function = Callable[..., Any]


def product(x: Tensor, w: Tensor) -> tuple[Tensor]:
    return ((x @ w).relu(),)


def of_functions(function: Function, *inputs: Tensor) -> fx.GraphModule:
    return fx.symbolic_trace(function)


def of_operators(function: Function, *inputs: Tensor) -> fx.GraphModule:
    return make_fx(function, tracing_mode="fake")(*inputs)


def of_sizes(function: Function, *inputs: Tensor) -> fx.GraphModule:
    return make_fx(function, tracing_mode="symbolic")(*inputs)


TRACED = pytest.mark.parametrize("traced", [of_functions, of_operators, of_sizes])
MODE = pytest.mark.parametrize("mode", MODES)


@MODE
@TRACED
@pytest.mark.parametrize("compiled_in", [torch.enable_grad, torch.no_grad])
def test_A24_gradients_are_those_of_the_call(compiled_in: Function, traced: Function, mode: str) -> None:
    x, w = torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
    with compiled_in():
        run = compile_fx(traced(product, x, w.detach()), [x, w], {"mode": mode})
    for state in (torch.no_grad, torch.enable_grad, torch.inference_mode, torch.enable_grad):
        with state():
            (found,) = run(x, w)
            torch.testing.assert_close(found, product(x, w)[0])
        assert found.requires_grad == (state is torch.enable_grad)
    (found,), (expected,) = run(x, w), product(x, w)
    assert torch.equal(*(torch.autograd.grad(value.sum(), w)[0] for value in (found, expected)))
    assert not run(x, w.detach())[0].requires_grad


@MODE
@TRACED
@pytest.mark.parametrize("first", [False, True])
def test_A24_autocast_is_that_of_the_call(first: bool, traced: Function, mode: str) -> None:
    x, w = torch.randn(2, 3), torch.randn(3, 3)
    graph = traced(product, x, w)
    run = compile_fx(graph, [x, w], {"mode": mode})
    for enabled in (first, not first, first):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            assert run(x, w)[0].dtype is graph(x, w)[0].dtype


@MODE
@pytest.mark.parametrize("traced", [of_functions, of_operators])
def test_A24_an_argument_may_lie_otherwise_than_the_example(traced: Function, mode: str) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.contiguous(), x.t() + 1

    graph = traced(function, torch.randn(3, 3))
    run = compile_fx(graph, [torch.randn(3, 3)], {"mode": mode})
    for given in (torch.randn(3, 3), torch.randn(6, 3)[::2], torch.randn(3, 3).t()):
        found, expected = run(given), graph(given)
        torch.testing.assert_close(found, expected, check_stride=True)
        assert (found[0].data_ptr() == given.data_ptr()) == (expected[0].data_ptr() == given.data_ptr())


@MODE
def test_A24_a_module_may_change_its_mode_and_its_parameters(mode: str) -> None:
    graph = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.BatchNorm1d(3))).train()
    x = torch.randn(4, 3)
    run = compile_fx(graph, [x], {"mode": mode})
    run(x)
    graph.eval()
    torch.testing.assert_close(run(x), graph(x))
    graph.load_state_dict({key: value + 1 for key, value in graph.state_dict().items()}, assign=True)
    torch.testing.assert_close(run(x), graph(x))


@MODE
def test_A24_a_parameter_of_a_graph_of_operators_may_be_another_one(mode: str) -> None:
    layer, x = nn.Linear(3, 3), torch.randn(2, 3)
    with torch.no_grad():
        graph = make_fx(layer, tracing_mode="fake", _allow_non_fake_inputs=True)(x)
        run = compile_fx(graph, [x], {"mode": mode})
        run(x)
        for name in dict(graph.named_parameters()):
            setattr(graph, name, nn.Parameter(torch.randn_like(getattr(graph, name))))
        torch.testing.assert_close(run(x), graph(x))


def keyword(x: Tensor, y: Tensor) -> Tensor:
    return x - y


def structure(x: Tensor) -> Any:
    return x + 1, slice(0, 2), torch.float32, None, {"a": [x * 2]}


@MODE
def test_A24_a_result_has_the_structure_that_the_graph_gives(mode: str) -> None:
    x = torch.randn(2, 3)
    for traced in (of_functions, of_operators):
        found = compile_fx(traced(lambda x: (x + 1, [x * 2]), x), [x], {"mode": mode})(x)
        assert (type(found), type(found[1])) == (tuple, list)
    found = compile_fx(fx.symbolic_trace(structure), [x], {"mode": mode})(x)
    assert type(found[4]) is dict
    assert type(found[4]["a"]) is list
    torch.testing.assert_close((found[0], found[4]), (x + 1, {"a": [x * 2]}))
    assert found[1:4] == (slice(0, 2), torch.float32, None)


@MODE
def test_A24_arguments_may_be_given_by_name(mode: str) -> None:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    for traced in (of_functions, of_operators):
        run = compile_fx(traced(keyword, x, y), [x, y], {"mode": mode})
        names = [node.name for node in traced(keyword, x, y).graph.find_nodes(op="placeholder")]
        torch.testing.assert_close(run(x, **{names[1]: y}), x - y)


class Named(nn.Module):
    """Takes a dictionary and a keyword, and gives a dictionary."""

    def forward(self, given: dict[str, Tensor], *, shift: Tensor) -> dict[str, Tensor]:
        return {"sum": given["a"] + given["b"] + shift}


@MODE
def test_A24_the_module_of_an_exported_program_is_called_as_it_is(mode: str) -> None:
    x, y, shift = torch.randn(2, 3), torch.randn(2, 3), torch.randn(3)
    module = export(Named(), ({"a": x, "b": y},), {"shift": shift}).module()
    run = compile_fx(module, options={"mode": mode})
    torch.testing.assert_close(run({"a": x + 1, "b": y}, shift=shift), {"sum": x + 1 + y + shift})


def lin(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w) * 2


def writes(x: Tensor, w: Tensor) -> Tensor:
    x[0] = w[1]
    row = x[1]
    row += 1
    return x * 2


@MODE
@pytest.mark.parametrize("dynamic", [None, False, True])
@pytest.mark.parametrize("function", [lin, writes])
def test_A24_a_backend_of_the_users_gives_it_graphs_of_dynamo(
    function: Function, dynamic: bool | None, mode: str
) -> None:
    counters["air"].clear()
    run = torch.compile(
        function, backend=lambda gm, inputs: compile_fx(gm, inputs, {"mode": mode}), dynamic=dynamic
    )
    for size in (3, 3, 4, 5):
        x, w = torch.randn(size, size), torch.randn(size, size, requires_grad=function is lin)
        ours, eagers = x.clone(), x.clone()
        found, expected = run(ours, w), function(eagers, w)
        torch.testing.assert_close((found, ours), (expected, eagers))
        assert found.requires_grad == expected.requires_grad
    assert counters["air"]["graphs"] > 0


def test_A24_a_graph_of_dynamo_is_compiled_after_it_was_made() -> None:
    made: list[fx.GraphModule] = []

    def keep(gm: fx.GraphModule, _: Any) -> Function:
        made.append(gm)
        return gm.forward

    torch.compile(lin, backend=keep, dynamic=True)(torch.ones(3, 3), torch.ones(3, 3))
    names = [node.target for node in made[0].graph.find_nodes(op="placeholder")]
    run = compile_fx(made[0], options={"mode": "reduce-overhead"})
    for size in (3, 4):
        x = torch.randn(size, size)
        given = [x if str(name).startswith(("L_", "l_")) else size for name in names]
        torch.testing.assert_close(run(*given)[0], lin(x, x))


def test_N27_a_graph_of_npugraph_ex_is_called_in_every_state() -> None:
    x, w = torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)
    run = npugraph_ex.compile_fx(of_operators(product, x, w.detach()), [x, w])
    for state in (torch.no_grad, torch.enable_grad):
        with state():
            assert run(x, w)[0].requires_grad == product(x, w)[0].requires_grad
    turned = torch.randn(3, 2).t()
    torch.testing.assert_close(run(turned, w), product(turned, w))


@MODE
def test_A24_a_program_that_reads_a_number_is_compiled(mode: str) -> None:
    class Cut(nn.Module):
        def forward(self, x: Tensor, count: Tensor) -> Tensor:
            size = count.item()
            torch._check(size >= 1)
            torch._check(size <= x.shape[0])
            return x[:size].sum(0) + (x @ x.t()).relu().sum()

    x, count = torch.randn(4, 4), torch.tensor(2)
    counters["air"].clear()
    run = compile_fx(export(Cut(), (x, count)), options={"mode": mode})
    with torch.no_grad():
        torch.testing.assert_close(run(x, count), Cut()(x, count))
    assert counters["air"]["graphs"] > 0
