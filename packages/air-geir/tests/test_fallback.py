"""Operators nothing translates run eagerly between compiled pieces, when that is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func

from air_geir import compile_graph
from air_geir._fallback import SplitExecutable, _as_stated
from air_geir.building import Context, Value
from air_geir.converters import converts, unregister
from air_geir.errors import UnsupportedGraphError
from air_geir.proof import trace


def mixed(x: torch.Tensor) -> Any:
    q, r = torch.linalg.qr(x * 2 + 1)
    return torch.relu(q) @ r, r.sum()


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_rest_of_the_graph_is_compiled(dynamic: bool) -> None:
    x = torch.randn(4, 4)
    run = compile_graph(trace(mixed, (x,), dynamic=dynamic), [x], engine="reference", fallback="eager")
    assert isinstance(run, SplitExecutable)
    for got, want in zip(run(x), mixed(x), strict=True):
        torch.testing.assert_close(got, want)
    assert [u.target for u in run.eager] == ["aten.linalg_qr.default"]
    assert len(run.pieces) == 2
    assert [each["operator"] for each in run.explain()["eager"]] == ["aten.linalg_qr.default"]


def test_without_being_asked_it_is_an_error() -> None:
    x = torch.randn(4, 4)
    with pytest.raises(UnsupportedGraphError, match="linalg_qr"):
        compile_graph(trace(mixed, (x,)), [x], engine="reference")


def test_a_write_to_an_input_survives_the_split() -> None:
    def step(x: torch.Tensor) -> Any:
        q, _ = torch.linalg.qr(x)
        y = q * 2
        x.copy_(y)
        return y.sum()

    x = torch.randn(3, 3)
    twin = x.clone()
    expected = step(twin)
    run = compile_graph(trace(step, (x.clone(),)), [x], engine="reference", fallback="eager")
    torch.testing.assert_close(run(x)[0], expected)
    torch.testing.assert_close(x, twin)


@pytest.mark.parametrize(
    "write", [lambda v: v[0].mul_(3), lambda v: v.diagonal().add_(1), lambda v: v[:, 1:].mul_(2)]
)
def test_a_write_to_memory_in_which_elements_share_an_address_is_torchs_own(write: Any) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        overlapping = torch.cat([x, x]).as_strided((2, 2), (2, 2), 3)
        write(overlapping)
        return overlapping

    x = torch.arange(5.0) + 1
    run = compile_graph(trace(function, (x,)), [x], engine="reference", fallback="eager")
    assert isinstance(run, SplitExecutable)
    assert torch.equal(run(x)[0], function(x))


def test_what_lies_round_the_elements_of_a_scatter_reaches_an_operator_that_addresses_it() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        written = torch.slice_scatter(x, x[::2] + 1, 0, 0, None, 2)
        again = torch.slice_scatter(written, written[1:] * 2, 0, 1)
        return torch.as_strided_copy(again, (2, 2, 2), (2, 3, 3), 1)

    x = torch.arange(10.0)[2:8:2]
    run = compile_graph(trace(function, (x,)), [x], engine="reference", fallback="eager")
    assert torch.equal(run(x)[0], function(x))
    assert "as_strided_copy.default reads what lies round the elements of its result" in str(
        run.explain()["eager"]
    )


@pytest.fixture
def halves() -> Iterator[Any]:
    """An operator with two results, and a converter that gives the first of them alone."""
    with torch.library._scoped_library("fallback", "FRAGMENT") as library:
        library.define("halves(Tensor x) -> (Tensor, Tensor)")
        library.impl("halves", lambda x: (x / 2, x / 4), "CompositeExplicitAutograd")
        operator = torch.ops.fallback.halves
        converts(operator.default)(first_half)
        yield operator
        unregister(operator.default)


def first_half(ctx: Context, x: Value) -> tuple[Any, ...]:
    """halves(Tensor x) -> (Tensor, Tensor)"""
    return ctx.emit("Mul", x, ctx.number(0.5, x.dtype), shape=x.shape), None


@pytest.mark.parametrize("wanted", ["returned", "read", "a view of it"])
def test_an_operator_whose_translation_lacks_a_result_that_is_wanted_runs_eagerly(
    halves: Any, wanted: str
) -> None:
    def step(x: torch.Tensor) -> Any:
        half, quarter = halves(x + 1)
        last = {"returned": quarter, "read": quarter * 3, "a view of it": quarter.detach().view(-1)}[wanted]
        return half * 2, last

    x = torch.randn(4, 4)
    run = compile_graph(trace(step, (x,)), [x], engine="reference", fallback="eager")
    for got, want in zip(run(x), step(x), strict=True):
        torch.testing.assert_close(got, want)
    assert isinstance(run, SplitExecutable)
    assert [u.target for u in run.eager] == ["fallback.halves.default"]
    assert "gives no result 1" in str(run.explain()["eager"])


def test_a_result_that_nobody_wants_need_not_be_given(halves: Any) -> None:
    x = torch.randn(4, 4)
    run = compile_graph(trace(lambda x: halves(x)[0] * 2, (x,)), [x], engine="reference")
    torch.testing.assert_close(run(x)[0], x)


class _Turned(torch.nn.Module):
    """An eager part whose values are not as their examples say: conjugated, and not dense."""

    def forward(self, x: torch.Tensor) -> Any:
        return x.conj(), x.t()


def test_what_runs_eagerly_reaches_a_piece_as_its_example_values_say() -> None:
    module = _Turned()
    gm = torch.fx.symbolic_trace(module)
    x = torch.complex(torch.randn(2, 3), torch.randn(2, 3))
    leaves: Any = gm.graph.output_node().args[0]
    for leaf, stated in zip(leaves, (x, x.t().contiguous()), strict=True):
        leaf.meta["val"] = stated
    conjugated, transposed = _as_stated(gm)(x)
    assert not conjugated.is_conj()
    assert torch.equal(conjugated, x.conj())
    assert transposed.is_contiguous()
    assert torch.equal(transposed, x.t())


def test_a_graph_that_gives_nothing_for_what_wants_no_gradient_runs_eagerly() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    doubled = graph.call_function(torch.ops.aten.mul.Tensor, (x, 2))
    graph.output((None, doubled))
    given = torch.arange(3.0)
    x.meta["val"] = doubled.meta["val"] = given
    none, found = _as_stated(torch.fx.GraphModule({}, graph))(given)
    assert none is None
    assert torch.equal(found, given * 2)


def test_a_result_that_the_real_kernel_leaves_out_stays_left_out() -> None:
    class Half(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x + 1, torch.ops.aten.native_layer_norm_backward(
                x, x, [3], x.mean(), x.mean(), None, None, [False, False, False]
            )[0]

    gm = torch.fx.symbolic_trace(Half())
    x = torch.arange(3.0)
    for leaf in gm.graph.output_node().all_input_nodes:
        leaf.meta["val"] = x  # what a fake kernel stated
    found, none = _as_stated(gm)(x)
    assert none is None
    assert torch.equal(found, x + 1)


def test_an_argument_whose_size_is_no_whole_expression_is_read_eagerly() -> None:
    """A backward graph is given the gradient of an image that was resized by 1.7."""
    torch._dynamo.reset()

    def inner(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        return make_boxed_func(compile_graph(gm, inputs, engine="reference", fallback="eager"))

    def resized(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x * 2, scale_factor=1.7, mode="nearest")

    run = torch.compile(resized, backend=aot_autograd(fw_compiler=inner), dynamic=True)
    for size in (6, 5):
        x, y = (
            torch.linspace(-1, 1, 2 * size * size).reshape(1, 2, size, size).requires_grad_()
            for _ in range(2)
        )
        found, expected = run(x), resized(y)
        torch.testing.assert_close(found, expected)
        (found**2).sum().backward()
        (expected**2).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
