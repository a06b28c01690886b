"""Operators of one's own go into the graph, in place and out of place, in both modes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from air_backend import CompilerConfig, _records, get_npu_backend
from air_fxpasses import register_inplace_twin
from air_geir import Context, Value, converts
from air_geir.converters import unregister


def _write(target: Tensor, value: Tensor) -> None:
    WRITTEN.append(target.data_ptr())
    target.copy_(value)


WRITTEN: list[int] = []
LIBRARY = torch.library.Library("air_backend_own", "DEF")
LIBRARY.define("blend(Tensor a, Tensor b, float weight) -> Tensor")
LIBRARY.define("blend_(Tensor(a!) a, Tensor b, float weight) -> ()")
LIBRARY.impl("blend", lambda a, b, weight: a + (b - a) * weight, "CPU")
LIBRARY.impl("blend_", lambda a, b, weight: _write(a, a + (b - a) * weight), "CPU")
LIBRARY.impl("blend", lambda a, b, weight: torch.empty_like(a), "Meta")
LIBRARY.impl("blend_", lambda a, b, weight: None, "Meta")
OWN = torch.ops.air_backend_own
MODES = ("reduce-overhead", "max-autotune")


@pytest.fixture(autouse=True)
def converter() -> Any:
    """`blend` as Ascend IR; `blend_` needs none, the graph writes its result back."""

    @converts(OWN.blend.default)
    def blend(ctx: Context, a: Value, b: Value, weight: float) -> Value:
        """blend(Tensor a, Tensor b, float weight) -> Tensor"""
        return ctx.emit("Add", a, ctx.emit("Muls", ctx.emit("Sub", b, a), value=weight))

    @converts(OWN.blend_.default)
    def blend_(ctx: Context, a: Value, b: Value, weight: float) -> None:
        """blend_(Tensor(a!) a, Tensor b, float weight) -> ()"""
        ctx.written["a"] = ctx.emit("Add", a, ctx.emit("Muls", ctx.emit("Sub", b, a), value=weight))

    yield
    unregister(OWN.blend.default)
    unregister(OWN.blend_.default)


def config(mode: str) -> CompilerConfig:
    made = CompilerConfig()
    made.set("mode", mode)
    return made


def step(state: Tensor, x: Tensor) -> Tensor:
    """Reads the old state, then writes it in place."""
    seen: Tensor = OWN.blend(state, x, 0.5)
    OWN.blend_(state, seen * 2, 0.25)
    return seen + state


@pytest.mark.parametrize("mode", MODES)
def test_S24_an_operator_of_ones_own_goes_into_the_graph_in_place_and_out_of_place(mode: str) -> None:
    compiled = torch.compile(step, backend=get_npu_backend(compiler_config=config(mode)), fullgraph=True)
    ours, theirs = torch.zeros(4, 8), torch.zeros(4, 8)
    for _ in range(3):
        x = torch.randn(4, 8)
        torch.testing.assert_close(compiled(ours, x), step(theirs, x))
        torch.testing.assert_close(ours, theirs)
    (record, _), *others = _records.alive()
    assert record.executor == mode
    assert not others


def test_S24_with_a_registered_twin_the_result_is_written_in_place() -> None:
    register_inplace_twin("air_backend_own::blend", "air_backend_own::blend_", ("a",))

    def chain(x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(OWN.blend(x + 1, y, 0.5))

    eagerly = config("reduce-overhead")
    eagerly.debug.run_eagerly = True
    x, y = torch.randn(4), torch.randn(4)
    WRITTEN.clear()
    torch.testing.assert_close(
        torch.compile(chain, backend=get_npu_backend(compiler_config=eagerly))(x, y), chain(x, y)
    )
    assert len(WRITTEN) == 1


def in_a_branch(x: Tensor, fetch: Callable[[Tensor], Tensor]) -> Tensor:
    return torch.as_tensor(torch.cond(x.sum() > -9, fetch, lambda x: x * 2, (x,)) + x)


@pytest.mark.parametrize("way", [lambda x, fetch: fetch(x) + x, in_a_branch], ids=["alone", "in a branch"])
@pytest.mark.parametrize("mode", MODES)
def test_what_an_operator_gives_back_and_keeps_is_not_written(
    mode: str, way: Callable[..., Tensor], device: str
) -> None:
    """A table or a workspace of the operator: only the program may write it."""
    state = torch.zeros(2, device=device)
    with torch.library._scoped_library("air_backend_state", "FRAGMENT") as library:
        library.define("fetch(Tensor x) -> Tensor")
        library.impl("fetch", lambda x: state, "CompositeExplicitAutograd")
        torch.library.register_fake("air_backend_state::fetch", torch.empty_like, lib=library)
        fetch = torch.ops.air_backend_state.fetch
        run = torch.compile(lambda x: way(x, lambda x: fetch(x)), backend="air", options={"mode": mode})
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = [run(torch.ones(2, device=device)).tolist() for _ in range(7)]
    assert made == [[1.0, 1.0]] * 7
    assert state.tolist() == [0.0, 0.0]
