"""torch's `activation_memory_budget`: a training step saves less for its backward, and computes the rest again there.

Where a budget is set, torch's min-cut divides a graph into forward and backward. By itself it would also draw random
numbers again, and read again what is written by then: the backward would have other values than the forward.
Here such values are always saved, and so are those of operators that are not torch's own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final
from unittest import mock

import torch
from torch import fx
from torch._functorch import config, partitioners
from torch.utils.checkpoint import CheckpointPolicy

from air_backend._written_once import hides_a_write, stays_on_its_side
from air_backend.eager_calls._repeats import why_not_again
from air_backend.errors import BudgetIgnored
from air_graph import owner_of, warn_at, written_inputs

Divide = Callable[..., tuple[fx.GraphModule, fx.GraphModule]]

#: What chooses the values that are saved, inside of torch's min-cut.
_CHOICE: Final = "choose_saved_values_set"
#: With a budget of 0 torch saves the inputs, and nothing that has to be saved.
_LEAST: Final = 1e-9
#: The budget of `torch.autograd.graph.region_activation_memory_budget`, which torch 2.11 does not have.
_of_region: Final[Callable[[fx.Node], float | None]] = getattr(
    torch.fx.traceback, "_get_memory_budget_annotation", lambda node: None
)
_told: Final[set[str]] = set()


def divides(graph: fx.Graph, *, lost: Sequence[fx.Node], is_joined: bool) -> Divide:
    """What divides a joint graph; `lost` are collectives of it whose results nobody takes."""
    if not _is_set(graph):
        return partitioners.default_partition
    if (reason := _why_not(graph, lost, is_joined)) is None:
        return _within_budget
    if reason not in _told:
        _told.add(reason)
        warn_at(None, BudgetIgnored(reason), "air_backend")
    return partitioners.default_partition


def _is_set(graph: fx.Graph) -> bool:
    """Whether there is a budget: for everything, or for the region that the graph comes from."""
    return config.activation_memory_budget != 1 or any(_of_region(node) is not None for node in graph.nodes)


def _why_not(graph: fx.Graph, lost: Sequence[fx.Node], is_joined: bool) -> str | None:
    if is_joined:
        return "forward and backward are one graph (aot_config_enable_joint_graph)"
    if lost:
        return f"nobody takes the result of a collective ({lost[0].target})"
    kept = next((node for node in graph.nodes if stays_on_its_side(node) or hides_a_write(node)), None)
    return None if kept is None else f"the graph calls {kept.target}, which has to run once"


def _within_budget(joint: fx.GraphModule, inputs: Any, **known: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
    """Forward and backward, by torch's min-cut."""
    once = _once(joint)
    for node in once:
        node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    least = _LEAST if once else 0.0
    choose = getattr(partitioners, _CHOICE)

    def chosen(graph: fx.Graph, known: Any, memory_budget: float = 1.0) -> list[fx.Node]:
        return list(_single(choose(graph, known, memory_budget=max(memory_budget, least))))

    # equal nodes stay two: each may be a number of its own
    with config.patch(cse=False), mock.patch.object(partitioners, _CHOICE, chosen):
        return partitioners.min_cut_rematerialization_partition(joint, inputs, **known)


def _once(joint: fx.GraphModule) -> list[fx.Node]:
    """What may give something else when it runs again."""
    written = _written(joint)

    def reads_what_is_written(node: fx.Node) -> bool:
        return any(owner_of(one) in written for one in node.all_input_nodes)

    return [
        node
        for node in joint.graph.nodes
        if node.op == "call_function"
        and "recompute" not in node.meta
        and (why_not_again(node) is not None or reads_what_is_written(node))
    ]


def _written(joint: fx.GraphModule) -> set[fx.Node]:
    """The arguments that are written, in the graph or after it."""
    results = joint.graph.output_node().meta.get("desc", ())
    after = [getattr(one, "mutated_input", None) for one in results]
    arguments = joint.graph.find_nodes(op="placeholder")
    return {*written_inputs(joint), *(one for one in arguments if one.meta.get("desc", joint) in after)}


def _single(saved: Iterable[fx.Node]) -> Iterator[fx.Node]:
    """The values themselves, where an operator with several results is to be saved."""
    for node in saved:
        if isinstance(node.meta.get("val"), (tuple, list)):
            yield from _single(user for user in node.users if user.target is operator.getitem)
        else:
            yield node
