"""Functions of the user as passes, before and after the others."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Transformer
from torch.fx.passes.infra.pass_base import PassResult

from air_fxpasses import CustomPass, Pipeline, default_passes
from air_fxpasses.errors import PassFailed
from air_fxpasses.testing import functional_graph, run_graph

aten = torch.ops.aten
x = torch.arange(4.0)


def double(gm: GraphModule) -> None:
    node = next(n for n in gm.graph.nodes if n.target is aten.add.Tensor)
    with gm.graph.inserting_after(node):
        doubled = gm.graph.call_function(aten.mul.Tensor, (node, 2))
    node.replace_all_uses_with(doubled, delete_user_cb=lambda user: user is not doubled)


@pytest.mark.parametrize("where", ["pre", "post"])
def test_what_a_function_inserts_is_seen_by_the_passes_behind_it(where: str) -> None:
    gm = functional_graph(lambda x: (x + 1).neg(), x)
    named: dict[str, Any] = {where: double}
    report = Pipeline(default_passes(**named)).run(gm, [x])
    assert report.step(f"custom_{where}").modified
    assert "aten.mul_.Tensor" in [str(n.target) for n in gm.graph.nodes]
    assert torch.equal(run_graph(gm, [x]).outputs[0], -((x + 1) * 2))


def test_a_function_that_changes_nothing_is_reported_so() -> None:
    gm = functional_graph(lambda x: x + 1, x)
    assert not Pipeline([CustomPass(lambda gm: None, "look")]).run(gm).step("look").modified


def test_what_a_function_raises_reaches_the_caller_and_the_graph_is_as_before() -> None:
    def fails(gm: GraphModule) -> None:
        double(gm)
        raise ZeroDivisionError("on purpose")

    gm = functional_graph(lambda x: (x + 1).neg(), x)
    text = str(gm.graph)
    with pytest.raises(PassFailed, match="'custom_pre' failed: ZeroDivisionError: on purpose"):
        Pipeline(default_passes(pre=fails)).run(gm)
    assert str(gm.graph) == text


def test_a_function_whose_body_a_call_does_not_run_is_an_error() -> None:
    def generator(gm: GraphModule) -> Iterator[None]:
        double(gm)
        yield

    async def coroutine(gm: GraphModule) -> None:
        double(gm)

    for function, what in ((generator, "generator"), (coroutine, "coroutine")):
        gm = functional_graph(lambda x: x + 1, x)
        with pytest.raises(PassFailed, match=f"it is a {what}, whose body a call does not run"):
            Pipeline(default_passes(pre=function)).run(gm)


class Doubles:
    def __call__(self, gm: GraphModule) -> GraphModule:
        return copy.deepcopy(gm)


def returns_another(gm: GraphModule) -> GraphModule:
    return copy.deepcopy(gm)


@pytest.mark.parametrize(("function", "name"), [(returns_another, "returns_another"), (Doubles(), "Doubles")])
def test_an_error_about_what_a_function_did_names_the_function_and_its_line(function: Any, name: str) -> None:
    gm = functional_graph(lambda x: (x + 1).neg(), x)
    with pytest.raises(PassFailed) as caught:
        Pipeline(default_passes(pre=function)).run(gm)
    code = getattr(function, "__code__", None) or type(function).__call__.__code__
    assert f"  function  {name} at {__file__}:{code.co_firstlineno}\n" in str(caught.value)
    assert "air_fxpasses/passes/_custom.py" not in str(caught.value)


def test_an_error_raised_below_a_function_has_the_line_in_that_function() -> None:
    def calls(gm: GraphModule) -> None:
        gm.get_submodule("no.such")

    gm = functional_graph(lambda x: (x + 1).neg(), x)
    with pytest.raises(PassFailed, match=r'raised at .*test_custom.py:\d+   gm.get_submodule\("no.such"\)'):
        Pipeline(default_passes(pre=calls)).run(gm)


def test_a_pass_may_be_given_instead_of_a_function() -> None:
    mine = CustomPass(double, "mine")
    assert mine in default_passes(pre=mine)


def cycle(gm: GraphModule) -> None:
    first, second = (n for n in gm.graph.nodes if n.op == "call_function")
    first.args = (second, 1)


def lost_output(gm: GraphModule) -> None:
    gm.graph.output_node().args = ((),)


def added_output(gm: GraphModule) -> None:
    output = gm.graph.output_node()
    output.args = ((output.args[0], output.args[0]),)


def no_output(gm: GraphModule) -> None:
    gm.graph.erase_node(gm.graph.output_node())


def added_input(gm: GraphModule) -> None:
    with gm.graph.inserting_before(next(iter(gm.graph.nodes))):
        gm.graph.placeholder("more")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (cycle, "before it has been defined"),
        (lost_output, "the graph had 1 outputs and has 0 after it"),
        (added_output, "the graph had 1 outputs and has 2 after it"),
        (no_output, "the graph had 1 outputs and has 0 after it"),
        (added_input, "the graph had 1 inputs and has 2 after it"),
    ],
)
def test_a_malformed_graph_is_the_failure_of_the_function_that_left_it(function: Any, said: str) -> None:
    gm = functional_graph(lambda x: (x + 1).neg(), x)
    with pytest.raises(PassFailed, match=f"'custom_post' failed: .*{said}"):
        Pipeline(default_passes(post=function)).run(gm, [x])
    assert len(gm.graph.find_nodes(op="placeholder")) == 1
    gm.graph.lint()
    assert torch.equal(run_graph(gm, [x]).outputs[0], -(x + 1))


def test_a_new_node_with_the_meta_of_another_one_has_a_value_of_its_own() -> None:
    """`new.meta = old.meta.copy()` is what many passes do: the copy holds the other node's example value."""

    def negated_twice(gm: GraphModule) -> None:
        (mul,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
        made = mul
        with gm.graph.inserting_after(mul):
            made = gm.graph.call_function(torch.ops.aten.neg.default, (mul,))
        made.meta = mul.meta.copy()
        with gm.graph.inserting_after(made):
            again = gm.graph.call_function(torch.ops.aten.neg.default, (made,))
        again.meta = mul.meta.copy()
        mul.replace_all_uses_with(again, delete_user_cb=lambda user: user is not made)

    gm = functional_graph(lambda x: x * 3 + 1, x)
    report = Pipeline([CustomPass(negated_twice)], verify=True).run(gm, [x])
    assert not any(step.rolled_back for step in report.steps)
    assert [node.target for node in gm.graph.nodes].count(torch.ops.aten.neg.default) == 2
    assert torch.equal(run_graph(gm, [x]).outputs[0], x * 3 + 1)


def mode_of(gm: GraphModule) -> FakeTensorMode:
    """Under which torch compiles a graph."""
    mode: FakeTensorMode = next(iter(gm.graph.nodes)).meta["val"].fake_mode
    return mode


@pytest.mark.parametrize("adds_module", [False, True])
def test_a_tensor_that_a_function_makes_without_data_is_its_failure(adds_module: bool) -> None:
    def add(gm: GraphModule) -> None:
        (node,) = gm.graph.find_nodes(op="call_function", target=aten.neg.default)
        with gm.graph.inserting_after(node):
            if adds_module:
                gm.add_submodule("mine", torch.nn.Linear(4, 4))
                made = gm.graph.call_module("mine", (node,))
            else:
                gm.register_buffer("mine", torch.ones(4))
                made = gm.graph.get_attr("mine")
        node.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made)

    gm = functional_graph(lambda x: x.neg().sin(), x)
    with mode_of(gm), pytest.raises(PassFailed, match=r"mine: new and without data.*unset_fake"):
        Pipeline([CustomPass(add, "mine")]).run(gm)
    assert torch.equal(run_graph(gm, [x]).outputs[0], x.neg().sin())


def test_a_tensor_that_a_function_makes_where_tensors_are_real_is_a_constant_of_the_graph() -> None:
    def add(gm: GraphModule) -> None:
        with unset_fake_temporarily():
            gm.register_buffer("mine", torch.full((4,), 3.0))
        (node,) = gm.graph.find_nodes(op="call_function", target=aten.neg.default)
        with gm.graph.inserting_before(node):
            node.replace_all_uses_with(gm.graph.get_attr("mine"))

    gm = functional_graph(lambda x: x.neg().sin(), x)
    with mode_of(gm):
        Pipeline([CustomPass(add, "mine")]).run(gm)
    assert torch.equal(run_graph(gm, [x]).outputs[0], torch.full((4,), 3.0).sin())


@pytest.mark.parametrize(
    "made",
    [
        lambda gm: Transformer(gm).transform(),
        lambda gm: copy.deepcopy(gm.graph),
        lambda gm: PassResult(Transformer(gm).transform(), True),
    ],
)
def test_another_graph_that_a_function_returns_is_its_failure(made: Any) -> None:
    gm = functional_graph(lambda x: x + 1, x)
    with pytest.raises(PassFailed, match=r"returns another Graph.*edits the one it is given"):
        Pipeline([CustomPass(made, "mine")]).run(gm, [x])


def test_the_graph_itself_may_be_returned_in_another_module() -> None:
    def swap(gm: GraphModule) -> GraphModule:
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            node.target = torch.ops.aten.cos.default
        return GraphModule(gm, gm.graph)

    gm = functional_graph(lambda x: x.sin(), x)
    assert Pipeline([CustomPass(swap, "mine")]).run(gm, [x]).step("mine").modified
    assert torch.equal(run_graph(gm, [x]).outputs[0], x.cos())


@pytest.mark.parametrize(
    "given", [lambda gm: gm, lambda gm: gm.graph, lambda gm: PassResult(gm, False), lambda gm: 5]
)
def test_the_graph_itself_may_be_returned(given: Any) -> None:
    gm = functional_graph(lambda x: x + 1, x)
    assert not Pipeline([CustomPass(given, "mine")]).run(gm, [x]).step("mine").modified
