"""What users' passes write under TorchAir's operator names acts as ours does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import Graph, GraphModule

import air_backend
from air_backend import _foreign_ops
from air_streams import StreamPlan
from air_streams.errors import UnbalancedScope

_foreign_ops.declare()


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def configured(mode: str, function: Any) -> Any:
    config = air_backend.CompilerConfig()
    config.mode = mode  # type: ignore[assignment]
    config.post_grad_custom_post_pass = function
    return air_backend.get_npu_backend(compiler_config=config)


def two_branches(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.relu(x) + 1, torch.sigmoid(x) * 2


@pytest.mark.parametrize("space", _foreign_ops.SPACES)
@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_A41_a_pass_that_marks_scopes_under_torchairs_names_moves_work_to_that_stream(
    space: str, mode: str, device: str
) -> None:
    ops = getattr(torch.ops, space)
    plans: list[list[str]] = []

    def mark(gm: GraphModule, example_inputs: Any, config: Any) -> None:
        (node,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.sigmoid.default)
        keys = ["_user_stream_label", "_user_stream_priority"]
        with gm.graph.inserting_before(node):
            gm.graph.call_function(ops.scope_enter.default, (keys, ["foreign", "0"]))
        (last,) = node.users  # the whole branch, so that its result is read after the streams have joined
        with gm.graph.inserting_after(last):
            gm.graph.call_function(ops.scope_exit.default, ())

    def look(gm: GraphModule) -> None:
        plan = StreamPlan.of(gm, sync="off")
        plans.append([plan.stream_of(n).tag for n in plan.nodes if "sigmoid" in str(n.target)])

    def marked(gm: GraphModule, example_inputs: Any, config: Any) -> None:
        mark(gm, example_inputs, config)
        _foreign_ops.adopt(gm)
        look(gm)

    compiled = torch.compile(two_branches, backend=configured(mode, mark), dynamic=False)
    seen = torch.compile(two_branches, backend=configured(mode, marked), dynamic=False)
    with torch.no_grad():
        for call in (compiled, seen):
            for _ in range(3):
                x = torch.randn(4, 4, device=device)
                for found, expected in zip(call(x), two_branches(x), strict=True):
                    torch.testing.assert_close(found, expected)
            torch._dynamo.reset()
    assert plans == [["foreign"]]


@pytest.mark.parametrize(
    ("keys", "values", "enters", "leaves"),
    [
        (["_user_stream_label"], ["1"], ["stream_enter"], ["stream_exit"]),
        (["_op_aicore_num", "_op_vectorcore_num"], ["4", "8"], ["core_limit_enter"], ["core_limit_exit"]),
        (["_super_kernel_scope"], ["a"], ["attributes_enter"], ["attributes_exit"]),
        (["_op_deterministic_level"], ["2"], ["attributes_enter"], ["attributes_exit"]),
        (
            ["_user_stream_label", "_enable_inner_parallel"],
            ["1", "False"],
            ["stream_enter", "attributes_enter"],
            ["attributes_exit", "stream_exit"],
        ),
    ],
)
def test_A41_each_kind_of_scope_becomes_its_own_operator_and_nests(
    keys: list[str], values: list[str], enters: list[str], leaves: list[str]
) -> None:
    graph = Graph()
    graph.call_function(torch.ops.air.scope_enter.default, (["_x"], ["y"]))
    graph.call_function(torch.ops.air.scope_enter, (keys, values))
    graph.call_function(torch.ops.air.scope_exit.default, ())
    graph.call_function(torch.ops.air.scope_exit.default, (False,))
    graph.output(())
    gm = GraphModule(torch.nn.Module(), graph)
    assert _foreign_ops.adopt(gm) == 4
    names = [n.target._schema.name.partition("::")[2] for n in gm.graph.nodes if n.op == "call_function"]
    assert names == ["attributes_enter", *enters, *leaves, "attributes_exit"]
    assert _foreign_ops.adopt(gm) == 0


def test_A41_a_scope_that_ends_without_a_beginning_is_an_error() -> None:
    graph = Graph()
    graph.call_function(torch.ops.npugraph_ex.scope_exit.default, ())
    graph.output(())
    with pytest.raises(UnbalancedScope, match="that no scope_enter of the graph began"):
        _foreign_ops.adopt(GraphModule(torch.nn.Module(), graph))


def test_A41_events_and_printing_of_a_model_are_ours_too(capfd: pytest.CaptureFixture[str]) -> None:
    def model(x: Tensor) -> Tensor:
        marker = torch.ops.air.record()
        y = x + 1
        torch.ops.air.wait([marker])
        torch.ops.air.print([y], "y is {}", "{}", 3, False)
        return y * 2

    compiled = torch.compile(model, backend="air", mode="reduce-overhead", fullgraph=True)
    with torch.no_grad():
        for start in (0.0, 1.0, 2.0):
            torch.testing.assert_close(compiled(torch.full((2,), start)), torch.full((2,), 2 * (start + 1)))
    printed = [line for line in capfd.readouterr().out.splitlines() if line.startswith("y is")]
    assert list(dict.fromkeys(printed)) == ["y is [1 1]", "y is [2 2]", "y is [3 3]"]


def test_A41_in_eager_code_scopes_do_nothing_and_print_prints(capfd: pytest.CaptureFixture[str]) -> None:
    torch.ops.air.scope_enter(["_user_stream_label"], ["1"])
    torch.ops.air.print([torch.ones(2)], "x {}", "{}", 3, False)
    torch.ops.air.scope_exit()
    assert capfd.readouterr().out == "x [1 1]\n"
