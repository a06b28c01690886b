"""Scopes that speak to the graph engine: traced as operators, silent in eager, a warning where a graph is captured."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from air_streams import ScopeIgnored, StreamPlan, scope
from air_streams.errors import InvalidArgument


def model(x: torch.Tensor) -> torch.Tensor:
    with scope.super_kernel("one"), scope.op_never_timeout(False), scope.deterministic(2):
        return torch.relu(x)


def test_A41_the_scopes_are_operators_of_the_graph_and_do_nothing_in_eager() -> None:
    x = torch.randn(4)
    torch.testing.assert_close(model(x), torch.relu(x))
    graph = make_fx(model, tracing_mode="fake")(x).graph
    plan = StreamPlan.of(graph)
    assert not plan.is_multi_stream
    assert plan.check() == ()
    assert [node.args[0] for node in plan.attribute_scopes] == [
        ["_super_kernel_scope", "_super_kernel_options"],
        ["_op_exec_never_timeout"],
        ["_deterministic", "_deterministic_level"],
    ]


def test_an_executor_that_captures_says_which_scopes_it_ignores_and_where() -> None:
    gm = make_fx(model, tracing_mode="fake")(torch.randn(4))
    plan = StreamPlan.of(gm)
    plan.attribute_scopes[0].meta["stack_trace"] = (
        '  File "model.py", line 9, in step\n    with super_kernel():\n'
    )
    with pytest.warns(ScopeIgnored, match="_super_kernel_scope.*max-autotune only") as caught:
        plan.warn_of_ignored_scopes()
    assert (caught[0].filename, caught[0].lineno) == ("model.py", 9)
    assert len(caught) == 3


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: scope.deterministic(4), "fixes the order"),
        (lambda: scope.deterministic(True), "fixes the order"),
        (lambda: scope.op_never_timeout("yes"), "leave the argument out"),  # type: ignore[arg-type]
        (lambda: scope.super_kernel(3), "name=value"),  # type: ignore[arg-type]
        (lambda: scope.npu_stream_switch("1", 0, 2), "leave the argument out"),  # type: ignore[arg-type]
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(make: object, advice: str) -> None:
    with pytest.raises(InvalidArgument, match=advice):
        make()  # type: ignore[operator]
