"""AOTAutograd says which inputs stay where they are; a backward half has them under their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.fx import GraphModule

from air_graph import static_inputs


def names_seen_by(module: nn.Module, x: Tensor) -> list[tuple[str, ...]]:
    """The names of the static inputs of every graph that a step of `module` compiles."""
    seen: list[tuple[str, ...]] = []

    def compiler(gm: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        names = [str(node.target) for node in gm.graph.find_nodes(op="placeholder")]
        seen.append(tuple(names[index] for index in static_inputs(gm)))
        boxed: Callable[..., Any] = make_boxed_func(gm.forward)
        return boxed

    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler)
    out = torch.compile(module, backend=backend)(x)
    if out.requires_grad:
        out.sum().backward()
    return seen


def test_parameters_are_static_and_arguments_are_not() -> None:
    model = nn.Linear(4, 4).requires_grad_(False)
    ((first, second),) = names_seen_by(model, torch.randn(2, 4))
    assert {first, second} == {"arg0_1", "arg1_1"}


def test_a_backward_half_has_the_static_inputs_that_were_saved() -> None:
    model = nn.Sequential(nn.LayerNorm(4), nn.Tanh(), nn.LayerNorm(4))
    forward, backward = names_seen_by(model, torch.randn(2, 4))
    assert len(forward) == 4
    assert backward
    assert set(backward) <= set(forward), "a saved activation is somewhere else in every step"


def test_outside_a_compilation_nothing_is_known() -> None:
    gm = torch.fx.symbolic_trace(nn.Linear(4, 4))
    assert static_inputs(gm) == ()
