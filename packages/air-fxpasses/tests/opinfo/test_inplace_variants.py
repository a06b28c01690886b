"""S14: every operator of torch's own operator table that has an in-place form, in the plain and the unsafe cases.

For each sample of each entry whose functional operator has an in-place twin, five programs are made around
one call: one where the argument is dead afterwards (must be written in place when its layout allows), and
four where writing would be seen (must be refused, with the reason). All are compared with eager.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import Graph, GraphModule, Node
from torch.testing._internal.common_methods_invocations import op_db

from air_fxpasses import Pipeline, ReinplaceInplaceable, twin_of
from air_fxpasses.testing import copied, difference, run_graph

aten = torch.ops.aten
_SAMPLES = 4
_ENTRIES = [
    info
    for info in op_db
    if getattr(info, "inplace_variant", None) is not None and info.supports_dtype(torch.float32, "cpu")
]


class Recorder(torch.utils._python_dispatch.TorchDispatchMode):
    """Keeps the ATen calls that one functional call of torch makes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has no annotation there
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def calls_of(info: Any) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    """The calls with an in-place twin that the samples of an entry make, where the twin can be used."""
    found = []
    for sample in itertools.islice(info.sample_inputs("cpu", torch.float32, requires_grad=False), _SAMPLES):
        with Recorder() as recorder, torch.no_grad():
            info.op(sample.input, *sample.args, **sample.kwargs)
        for target, args, kwargs in recorder.calls:
            twin = twin_of(target)
            if twin is not None and twin.returns_self and isinstance(args[0], torch.Tensor):
                found.append((target, args, kwargs))
    return found


def build(
    target: Any, args: Any, kwargs: Any, around: Callable[[Graph, Node, Callable[[Node], Node]], Any]
) -> Any:
    """(graph module, inputs) of a program in which `target` is called on what `around` makes of an input."""
    graph = Graph()
    leaves: list[torch.Tensor] = []

    def as_node(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            leaves.append(value)
            return graph.placeholder(f"x{len(leaves) - 1}")
        if isinstance(value, (list, tuple)):
            return [as_node(v) for v in value]
        return value

    nodes = [as_node(a) for a in args]
    named = {k: as_node(v) for k, v in kwargs.items()}

    def call(first: Node) -> Node:
        return graph.call_function(target, (first, *nodes[1:]), named)

    graph.output(around(graph, nodes[0], call))
    return GraphModule(torch.nn.Module(), graph), leaves


def fresh(graph: Graph, x: Node) -> Node:
    """A copy that keeps strides and is no clone, which would be a candidate itself."""
    return graph.call_function(aten._to_copy.default, (x,))


def plain(graph: Graph, x: Node, call: Callable[[Node], Node]) -> Any:
    return (call(fresh(graph, x)),)


def read_later(graph: Graph, x: Node, call: Callable[[Node], Node]) -> Any:
    old = fresh(graph, x)
    return (call(old), graph.call_function(aten.view.default, (fresh(graph, old), [-1])))


def input_must_not_change(graph: Graph, x: Node, call: Callable[[Node], Node]) -> Any:
    return (call(x),)


def overlapping(graph: Graph, x: Node, call: Callable[[Node], Node]) -> Any:
    """The argument is made of windows into another value."""
    size = list(x.meta["size"])
    storage = graph.call_function(aten.new_ones.default, (x, [sum(size) + 1]))
    return (call(graph.call_function(aten.as_strided.default, (storage, size, [1] * len(size), 0))),)


def expanded(graph: Graph, x: Node, call: Callable[[Node], Node]) -> Any:
    one = graph.call_function(aten.new_ones.default, (x, [1] * len(x.meta["size"])))
    return (call(graph.call_function(aten.expand.default, (one, list(x.meta["size"])))),)


def run(target: Any, args: Any, kwargs: Any, around: Any) -> tuple[bool, list[str]] | None:
    """(whether the call became in-place, reasons); `None` when eager refuses the program."""

    def with_size(graph: Graph, x: Node, call: Any) -> Any:
        x.meta["size"] = args[0].size()
        return around(graph, x, call)

    gm, inputs = build(target, args, kwargs, with_size)
    try:
        torch.manual_seed(1)
        eager = run_graph(gm, copied(inputs))
    except RuntimeError:
        return None
    report = Pipeline([ReinplaceInplaceable()], recompile=False).run(gm, inputs)
    torch.manual_seed(1)
    found = difference(eager, run_graph(gm, copied(inputs)))
    assert found is None, f"{target}{[getattr(a, 'shape', a) for a in args]}: {found}\n{gm.graph}"
    reasons = [r.reason for r in report.refusals if r.target == str(target)]
    return target not in [n.target for n in gm.graph.nodes], reasons


def is_writable(target: Any, args: Any, kwargs: Any) -> bool:
    """Whether eager's in-place form takes this sample and gives what the functional form gives."""
    twin = twin_of(target)
    assert twin is not None
    if torch.Tag.nondeterministic_seeded in target.tags:
        return False
    first = args[0].clone()
    same = any(a is args[0] for a in (*args[1:], *kwargs.values()))
    value = target(first, *args[1:], **kwargs)
    return (
        not same
        and value.dtype == first.dtype
        and value.size() == first.size()
        and value.stride() == first.stride()
    )


@pytest.mark.sampled(5)
@pytest.mark.parametrize("info", _ENTRIES, ids=lambda info: info.formatted_name)
def test_S14_an_operator_is_written_in_place_exactly_where_nobody_can_tell(info: Any) -> None:
    for target, args, kwargs in calls_of(info):
        done = run(target, args, kwargs, plain)
        assert done is not None
        writable = is_writable(target, args, kwargs)
        assert done[0] == writable, f"{target}: in place {done[0]}, expected {writable}: {done[1]}"
        for around, allowed in _UNSAFE:
            outcome = run(target, args, kwargs, around)
            if outcome is None or args[0].numel() < 2 or (around is overlapping and args[0].dim() < 2):
                continue
            assert not outcome[0], f"{target} was written in place although {around.__name__}"
            if writable:
                assert any(text in reason for reason in outcome[1] for text in allowed), (
                    target,
                    around,
                    outcome[1],
                )


_UNSAFE: list[tuple[Any, tuple[str, ...]]] = [
    (read_later, ("the old value is read later",)),
    (input_must_not_change, ("which must not change",)),
    (overlapping, ("strides", "overlap")),
    (expanded, ("expanded", "strides")),
]


def test_the_table_covers_the_in_place_operators_of_torch() -> None:
    """The derived table is not empty by accident: most entries lead to at least one pair."""
    covered = Counter(bool(calls_of(info)) for info in _ENTRIES[::3])
    assert covered[True] > 30, covered
