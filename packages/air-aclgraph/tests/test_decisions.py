"""What the host would have to decide in the middle of a capture is refused before it, with its line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.fx import GraphModule
from torch.utils.checkpoint import checkpoint

from aclgraph_backend import Backend, traced
from air_aclgraph._decisions import decision
from air_aclgraph.errors import IllegalDuringCapture


def branch(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))  # type: ignore[no-any-return]  # torch leaves it unannotated


def random_branch(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda t: t + torch.rand_like(t), lambda t: t - 1, (x,))  # type: ignore[no-any-return]  # torch leaves it unannotated


def rounds(x: Tensor) -> Tensor:
    return while_loop(lambda a: a.sum() < 100, lambda a: (a * 2 + 1,), (x,))[0]  # type: ignore[no-any-return]  # torch leaves it unannotated


def dropped(x: Tensor) -> Tensor:
    return checkpoint(lambda t: torch.dropout(t.sin(), 0.5, True).cos(), x, use_reentrant=False)  # type: ignore[no-any-return]  # torch leaves it unannotated


def printed(x: Tensor) -> Tensor:
    torch.ops.higher_order.print("rows {}", x.shape[0])
    return x + 1


def refuse_all(gm: GraphModule) -> None:
    for node in gm.graph.nodes:
        found = decision(node, "cuda")
        if found is not None:
            raise found.error("cuda")


@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (random_branch, "cond"),
        (rounds, "while_loop"),
        (dropped, "run_with_rng_state|run_and_save_rng"),
        (printed, "print"),
    ],
)
def test_what_the_host_decides_is_refused_with_its_line(
    accelerator: str, function: Callable[..., Any], operator: str
) -> None:
    x = torch.ones(2, 3, device=accelerator, requires_grad=function is dropped)
    with pytest.raises(
        Exception, match=f"({operator}).* cannot be captured on the {accelerator} runtime"
    ) as caught:
        torch.compile(function, backend=Backend(accelerator))(x)
    assert "test_decisions.py" in str(caught.value)
    assert "run_eagerly" in str(caught.value)


def test_a_branch_that_sizes_decide_is_captured(accelerator: str) -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cond(x.shape[0] > 2, lambda t: t + 1, lambda t: t - 1, (x,))  # type: ignore[no-any-return]  # torch leaves it unannotated

    compiled = torch.compile(function, backend=Backend(accelerator), dynamic=True)
    for rows in (2, 3, 4, 2):
        x = torch.ones(rows, 3, device=accelerator)
        assert torch.equal(compiled(x), function(x))


@pytest.mark.parametrize(("function", "operator"), [(branch, "cond"), (rounds, "while_loop")])
def test_the_operator_and_the_reason_are_named(function: Callable[..., Any], operator: str) -> None:
    gm = traced(function, torch.ones(2))
    with pytest.raises(
        IllegalDuringCapture, match=f"{operator} cannot be captured on the cuda runtime"
    ) as caught:
        refuse_all(gm)
    assert caught.value.operator == operator
    assert "torch.where" in caught.value.advice


def test_an_operator_inside_the_body_of_another_is_found() -> None:
    def function(x: Tensor) -> Tensor:
        def body(total: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
            return total + branch(row), row * 1

        return scan(body, x[0], x)[0]  # type: ignore[no-any-return]  # torch leaves it unannotated

    graphs: list[GraphModule] = []

    def keep(gm: GraphModule, example_inputs: Any) -> Callable[..., Any]:
        graphs.append(gm)
        return gm.forward

    torch.compile(function, backend=keep)(torch.ones(2, 3))
    with pytest.raises(IllegalDuringCapture, match=r"cond cannot be captured .*\(inside scan\)"):
        refuse_all(graphs[0])


def test_graphs_without_decisions_pass() -> None:
    refuse_all(traced(lambda x: nn.functional.relu(x) + 1, torch.ones(2)))
