"""A result whose elements lie over one another has the gradient of eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._inductor.utils import fresh_cache

from air_backend import compile_fx
from air_backend._overlapping_results import AS_RESULTS_LIE, layout_of_gradients

Program = Callable[[Tensor], tuple[Tensor, ...]]
MODES = ("reduce-overhead", "max-autotune")
PROGRAMS: dict[str, Program] = {
    "windows": lambda x: ((x * 2).unfold(0, 3, 1),),
    "windows beside others": lambda x: ((x * 2).unfold(0, 3, 2), x.sin().reshape(2, 3).t()),
    "diagonals": lambda x: ((x * 2).as_strided((3, 3), (1, 1)),),
    "rows": lambda x: ((x * 2).expand(3, 6),),
    "a part of rows": lambda x: ((x * 2)[None].expand(3, 6)[:, 1:],),
    "an image": lambda x: ((x * 2).reshape(1, 1, 2, 3).expand(2, 4, 2, 3),),
}


def gradient(function: Program) -> tuple[Any, ...]:
    """Results, where their elements lie, and the gradient where each element of a result has a weight of its own."""
    x = torch.arange(6.0).requires_grad_()
    results = function(x)
    weighted = ((one * torch.arange(1.0, one.numel() + 1).reshape(one.shape)).sum() for one in results)
    (given,) = torch.autograd.grad(list(weighted), x)
    return results, [one.stride() for one in results], given


@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("saved", [False, True], ids=["", "saved"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_N25_each_of_the_elements_in_one_place_has_its_own_gradient(
    name: str, mode: str, saved: bool, dynamic: bool | None
) -> None:
    torch._dynamo.reset()
    options: dict[str, Any] = {"mode": mode, "air.cache.save": saved}
    with fresh_cache():
        run = torch.compile(PROGRAMS[name], backend="air", options=options, dynamic=dynamic)
        for _ in range(3):
            torch.testing.assert_close(gradient(run), gradient(PROGRAMS[name]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_N25_so_it_is_where_nothing_is_known_of_the_results(name: str) -> None:
    gm = torch.fx.symbolic_trace(PROGRAMS[name])
    run = compile_fx(gm, [torch.ones(6, requires_grad=True)])
    torch.testing.assert_close(gradient(run), gradient(PROGRAMS[name]))


def traced(function: Callable[..., Any], *args: Any, dynamic: bool = False) -> torch.fx.GraphModule:
    """The graph of Dynamo."""
    found: list[torch.fx.GraphModule] = []

    def backend(gm: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        found.append(gm)
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
    return found[0]


DENSE: dict[str, Callable[[Tensor], Any]] = {
    "transposed": lambda x: (x * 2).t(),
    "every second column": lambda x: (x * 2)[:, ::2],
    "one row": lambda x: (x[:1] * 2).expand(1, 6),
    "empty": lambda x: (x[:0].sum(0) * 2).expand(0, 6),
    "rows of several lengths": lambda x: torch.nested.nested_tensor_from_jagged(
        x * 2, torch.tensor([0, 1, 3])
    ),
    "a number": lambda x: x.shape[0],
}


@pytest.mark.parametrize("name", DENSE)
def test_gradients_of_other_results_lie_as_torch_has_them(name: str) -> None:
    gm = traced(lambda x: (DENSE[name](x), x + 1), torch.ones(3, 6))
    assert layout_of_gradients(gm) == {}


def test_results_with_open_sizes_are_known_to_be_dense() -> None:
    gm = traced(lambda x: (x.sin().t(), x.flatten() + 1), torch.ones(3, 6), dynamic=True)
    assert layout_of_gradients(gm) == {}


def test_one_such_result_decides_for_a_graph() -> None:
    gm = traced(lambda x: (x * 2, x.sin().unfold(0, 2, 1)), torch.ones(6))
    assert layout_of_gradients(gm) == {AS_RESULTS_LIE: False}
