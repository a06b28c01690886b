"""Chains of views become one, or stay where somebody else depends on them."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from air_config import CompilerConfig, Context, resolve
from air_geir import Executable, compile_graph
from air_geir.ge_passes import FoldViews
from air_geir.ir import Attr, AttrKind, DataType, Graph, Node, TensorDesc
from air_geir.program import ArgInput, GraphOutput, Program
from air_geir.proof import trace


def compiled(fold: bool, *, dynamic: bool = False) -> tuple[Executable, torch.Tensor, torch.Tensor]:
    def views(x: torch.Tensor) -> torch.Tensor:
        y = x.reshape(6, -1).reshape(2, 3, -1)
        turned = y.permute(2, 0, 1).permute(1, 0, 2).contiguous()
        back: torch.Tensor = torch.relu(turned).transpose(0, 1).transpose(0, 1).contiguous()
        return back + 1

    config = CompilerConfig()
    config.experimental_config.enable_view_optimize = fold
    settings = resolve(config, Context(device="cpu"))
    x = torch.randn(12, 4)
    run = compile_graph(trace(views, [x], dynamic=dynamic), [x], settings=settings, engine="reference")
    return run, x, views(x)


def count(run: Executable) -> list[str]:
    return [n.op_type for n in run.program.graph if n.op_type in ("Reshape", "Transpose")]


@pytest.mark.parametrize("dynamic", [False, True])
def test_G39_chains_of_views_are_one_view_unless_the_option_says_no(dynamic: bool) -> None:
    kept, x, expected = compiled(False, dynamic=dynamic)
    assert count(kept) == ["Reshape"] * 2 + ["Transpose"] * 4
    folded, _, _ = compiled(True, dynamic=dynamic)
    assert count(folded) == ["Reshape", "Transpose"]
    assert "fold_views: " in "\n".join(folded.explain()["passes"])
    assert torch.equal(kept(x)[0], expected)
    torch.manual_seed(0)
    again = torch.randn(12, 4)
    assert torch.equal(kept(again)[0], folded(again)[0])


def chain() -> tuple[Program, Node, Node]:
    graph = Graph("g")
    shape = (2, 3, 4)
    x = graph.data("x", TensorDesc(DataType.FLOAT, shape))
    first = graph.add("Transpose", x, graph.const([1, 0, 2]), outputs=TensorDesc(DataType.FLOAT, (3, 2, 4)))
    second = graph.add(
        "Transpose", first, graph.const([2, 0, 1]), outputs=TensorDesc(DataType.FLOAT, (4, 3, 2))
    )
    graph.output([second])
    return Program(graph, (ArgInput(0),), (GraphOutput(0),), 1), first, second


def test_the_first_of_a_chain_stays_for_its_other_reader() -> None:
    made, first, second = chain()
    with made.graph.inserting_before(made.graph.net_output):
        other = made.graph.add("Relu", first, outputs=first.output.desc)
    made.graph.net_output.run_after(other)
    assert FoldViews()(made).changed == 1
    assert first.graph is not None
    assert second.inputs[0] is made.graph.inputs[0].output


def test_a_view_with_a_mark_or_an_order_of_its_own_is_left_alone() -> None:
    made, first, _ = chain()
    first.attrs["_user_stream_label"] = Attr(AttrKind.STR, "s")
    assert FoldViews()(made).changed == 0
    made, first, _ = chain()
    made.graph.net_output.run_after(first)
    assert FoldViews()(made).changed == 0


def test_an_order_of_axes_that_is_computed_stays() -> None:
    made, _, second = chain()
    graph = made.graph
    with graph.inserting_before(second):
        perm = graph.data("perm", TensorDesc(DataType.INT64, (3,)))
    second.set_input(1, perm)
    assert FoldViews()(made).changed == 0


def test_a_chain_over_what_is_written_reads_it_before_the_write() -> None:
    def step(cache: torch.Tensor) -> torch.Tensor:
        turned = cache.permute(3, 0, 1, 2).contiguous(memory_format=torch.channels_last)
        cache.index_fill_(0, torch.tensor([0]), 2)
        return turned.transpose(0, -1)

    compiled_step = torch.compile(
        step,
        backend=aot_autograd(fw_compiler=_by_the_reference, keep_inference_input_mutations=True),
        dynamic=False,
    )
    mine, eagers = torch.arange(48.0).reshape(2, 4, 2, 3), torch.arange(48.0).reshape(2, 4, 2, 3)
    assert torch.equal(compiled_step(mine), step(eagers))
    assert torch.equal(mine, eagers)


def _by_the_reference(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Executable:
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.lift_fresh_copy.default):
        node.replace_all_uses_with(node.all_input_nodes[0])  # as a pass does: a constant needs no copy
        gm.graph.erase_node(node)
    return compile_graph(gm, inputs, engine="reference")
