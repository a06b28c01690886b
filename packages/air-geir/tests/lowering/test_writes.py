"""Writes to the caller's tensors: a KV cache is updated where it is, without a copy."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close

from air_geir import Context, Value, compile_graph, converts
from air_geir.converters import unregister
from air_geir.errors import CannotConvert
from air_geir.proof import trace


def by_index_copy(cache: torch.Tensor, new: torch.Tensor, at: torch.Tensor) -> Any:
    updated = torch.ops.aten.index_copy(cache, 2, at, new)
    cache.copy_(updated)
    return updated.sum(-1)


def by_index_put(cache: torch.Tensor, new: torch.Tensor, at: torch.Tensor) -> Any:
    updated = torch.ops.aten.index_put(cache, [None, None, at], new)
    cache.copy_(updated)
    return updated.sum(-1)


def by_slice(cache: torch.Tensor, new: torch.Tensor, at: torch.Tensor) -> Any:
    updated = torch.ops.aten.slice_scatter(cache, new, 2, 3, 4)
    cache.copy_(updated)
    return updated.sum(-1)


@pytest.mark.parametrize("step", [by_index_copy, by_index_put, by_slice])
def test_a_cache_is_written_in_place_without_a_copy(step: Any) -> None:
    cache, new = torch.randn(2, 4, 16, 8), torch.randn(2, 4, 1, 8)
    at = torch.tensor([3])
    expected_cache = cache.clone()
    expected = step(expected_cache, new, at)
    run = compile_graph(trace(step, (cache.clone(), new, at)), [cache, new, at], engine="reference")
    address = cache.data_ptr()
    assert_close(run(cache, new, at)[0], expected)
    assert_close(cache, expected_cache)
    assert cache.data_ptr() == address
    types = [node.op_type for node in run.program.graph]
    assert "TensorMove" not in types
    assert "Assign" not in types
    assert run.stats()["protective_copies"] == 0


def test_the_old_value_is_kept_while_somebody_reads_it() -> None:
    def step(cache: torch.Tensor, new: torch.Tensor) -> Any:
        updated = torch.ops.aten.slice_scatter(cache, new, 0, 1, 2)
        before = cache * 10
        cache.copy_(updated)
        return before + updated

    cache, new = torch.randn(4, 3), torch.randn(1, 3)
    twin = cache.clone()
    expected = step(twin, new)
    run = compile_graph(trace(step, (cache.clone(), new)), [cache, new], engine="reference")
    assert_close(run(cache, new)[0], expected)
    assert_close(cache, twin)


def test_two_inputs_can_trade_places() -> None:
    def swap(a: torch.Tensor, b: torch.Tensor) -> Any:
        c, d = b.clone(), a.clone()
        total = a + b
        a.copy_(c)
        b.copy_(d)
        return total

    run = compile_graph(trace(swap, (torch.ones(4), torch.zeros(4))), [torch.ones(4), torch.zeros(4)])
    a, b = torch.arange(4.0), torch.full((4,), 9.0)
    want_a, want_b = b.clone(), a.clone()
    run(a, b)
    assert_close(a, want_a)
    assert_close(b, want_b)


def test_a_strided_input_is_written_where_it_is() -> None:
    def step(x: torch.Tensor) -> Any:
        y = x * 2
        x.copy_(y)
        return y.sum()

    base = torch.randn(4, 6)
    view = base.t()
    run = compile_graph(trace(step, (base.clone().t(),)), [view])
    expected = base * 2
    run(view)
    assert_close(base, expected)


def test_a_write_inside_the_graph_is_refused() -> None:
    def step(x: torch.Tensor) -> Any:
        y = x + 1
        y.add_(2)
        return y

    with pytest.raises(CannotConvert, match="writes in place"):
        compile_graph(make_fx(step, tracing_mode="fake")(torch.ones(2)), [torch.ones(2)])


def test_a_result_shares_memory_with_an_input_where_eager_does_and_nowhere_else() -> None:
    run = compile_graph(trace(lambda x: (x.t().clone(), x.view(-1)), (torch.ones(2, 3),)), [torch.ones(2, 3)])
    x = torch.ones(2, 3)
    copied, viewed = run(x)
    copied.zero_()
    assert_close(x, torch.ones(2, 3))
    viewed.zero_()
    assert_close(x, torch.zeros(2, 3))


LIBRARY = torch.library.Library("geir_writes_test", "DEF")
LIBRARY.define("bump(Tensor(a!) cache, Tensor by) -> ()")
LIBRARY.impl("bump", lambda cache, by: cache.add_(by) and None, "CPU")
LIBRARY.impl("bump", lambda cache, by: None, "Meta")


def test_an_operator_that_writes_is_applied_to_the_input_itself() -> None:
    bump = torch.ops.geir_writes_test.bump.default

    @converts(bump)
    def convert(ctx: Context, cache: Value, by: Value) -> None:
        """bump(Tensor(a!) cache, Tensor by) -> ()"""
        total = ctx.emit("Add", cache, by, shape=cache.shape)
        ctx.written["cache"] = ctx.emit("Assign", cache, total, shape=cache.shape)

    def step(cache: torch.Tensor, by: torch.Tensor) -> Any:
        bump(cache, by)
        return cache * 2

    try:
        made: list[Any] = []

        def compiler(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            made.append(compile_graph(gm, inputs, engine="reference"))
            run = made[-1]

            def boxed(args: list[Any]) -> Any:
                return run(*args)

            boxed._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd's mark for functions that take a list
            return boxed

        backend = aot_autograd(
            fw_compiler=compiler, inference_compiler=compiler, keep_inference_input_mutations=True
        )
        torch._dynamo.reset()
        run: Any = torch.compile(step, backend=backend, fullgraph=True)
        cache, by = torch.zeros(3), torch.ones(3)
        with torch.no_grad():
            assert_close(run(cache, by), torch.full((3,), 2.0))
        assert_close(cache, torch.ones(3))
        assert made
    finally:
        unregister(bump)
