"""Drawn graphs of Python's operators give what they give uncompiled: results, arguments afterwards, and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from air_backend import compile_fx
from drawn_graphs import drawn_graph, given

MODES = ("reduce-overhead", "max-autotune")
Function = Callable[..., Any]


def by_hand(gm: fx.GraphModule, mode: str) -> Function:
    return compile_fx(gm, given(0, grad=False)[1], {"mode": mode})


def in_a_backend(gm: fx.GraphModule, mode: str) -> Function:
    return torch.compile(gm, backend=lambda graph, inputs: compile_fx(graph, inputs, {"mode": mode}))


def seen(run: Function, seed: int, *, grad: bool) -> Any:
    """What a caller sees: the results, the arguments afterwards, and the gradients or that there are none."""
    leaves, arguments = given(seed, grad=grad)
    results = run(*arguments)
    traced = [value for value in tree_leaves(results) if value.requires_grad]
    after = [value.detach() for value in arguments]
    if not traced:
        return results, after, []
    try:
        total = torch.stack([value.sum() for value in traced]).sum()
        gradients = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
        return results, after, list(gradients)
    except RuntimeError as error:  # a value that the gradient needs was written
        return results, after, ["inplace" in str(error)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", [by_hand, in_a_backend])
@pytest.mark.parametrize("seed", range(12))
def test_A24_a_drawn_graph_of_operators_gives_what_it_gives_uncompiled(
    seed: int, way: Function, mode: str
) -> None:
    gm = drawn_graph(seed)
    run = way(drawn_graph(seed), mode)
    for call, grad in enumerate((False, False, True, False)):
        torch.testing.assert_close(seen(run, call, grad=grad), seen(gm, call, grad=grad), equal_nan=True)
