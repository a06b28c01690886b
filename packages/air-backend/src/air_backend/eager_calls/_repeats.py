"""Whether the forward half of a graph may run again for its gradients, and what those gradients are of.

It may where it gives the same: it draws no random numbers, calls torch's operators only, and no result depends on what
it writes. The statistics of a batch norm in training are written, and nothing reads them.

A result that is a view of a value of the graph is rebuilt outside of it, and so its gradient comes to the whole value:
`values[1:]` has none of its own, `values` has one. A result that is an argument, or a view of one, has none here.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, fx
from torch._functorch._aot_autograd.schemas import OutputType
from torch._functorch.autograd_function import autograd_function_apply
from torch._guards import TracingContext
from torch._higher_order_ops.effects import with_effects
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import py_sym_types
from torch.utils._pytree import tree_leaves

from air_graph import draws_random_numbers, effects_of_node

_OWN: Final = ("aten", "prims", "npu")
_ITSELF: Final = (OutputType.non_alias, OutputType.unsafe_view_alias, OutputType.custom_function_view)
_OF_A_VALUE: Final = (OutputType.alias_of_intermediate, OutputType.alias_of_intermediate_save_as_output)

#: What has no effect but an error.
_CHECKS: Final = (torch.ops.aten._linalg_check_errors.default,)
_NORM: Final = torch.ops.aten._native_batch_norm_legit_functional.default
_TRAINS: Final = 5
_STATISTICS: Final = (3, 4)


class GradientOf(NamedTuple):
    """What a gradient is of: a result, or what a result is a view of."""

    result: int
    whole: bool = False

    def tensor_in(self, results: Sequence[Any]) -> Tensor | None:
        """That tensor, where the forward ran eagerly."""
        found = results[self.result]
        return found._base if self.whole and isinstance(found, Tensor) else found


@dataclass(frozen=True)
class Repeats:
    """How a forward half runs again."""

    gradients: tuple[GradientOf | None, ...]
    """What each gradient is of that autograd hands to the backward half."""
    written: tuple[int, ...] = ()
    """The arguments that it writes; no result depends on what they held."""
    arguments: int = 0
    """How many it has; fewer than Dynamo's graph where some share memory, and then they are others."""


def repeats_as(gm: fx.GraphModule, forward: Repeats | str) -> Repeats | str:
    """How Dynamo's graph runs in the place of the forward half that was made of it, or why it may not."""
    if isinstance(forward, str):
        return forward
    graphs = [one.graph for one in gm.modules() if isinstance(one, fx.GraphModule)]
    # of such a function Dynamo keeps the backward without its gradients
    if any(graph.find_nodes(op="call_function", target=autograd_function_apply) for graph in graphs):
        return "it calls a torch.autograd.Function"
    if forward.written and len(gm.graph.find_nodes(op="placeholder")) != forward.arguments:
        return "it writes arguments that share memory"
    return forward


def repeats_of(gm: fx.GraphModule) -> Repeats | str:
    """How the forward half in compilation runs again, or why it may not."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None:
        return "AOTAutograd said nothing about it"
    reason = next(filter(None, map(why_not_again, gm.graph.nodes)), None)
    if reason is not None:
        return reason
    arguments = metadata.input_info
    written = tuple(place for place, one in enumerate(arguments) if one.mutates_data)
    if any(one.mutates_metadata or (one.mutates_data and one.requires_grad) for one in arguments):
        return "it changes an argument that has a gradient, or the form of one"
    if written and _reaches_results(gm, written, metadata):
        return "it reads what it writes"
    before: tuple[None, ...] = (None,) * len(metadata.mutated_inp_runtime_indices)
    return Repeats((*before, *_of_results(metadata), *_of_values(metadata)), written, len(arguments))


def why_not_again(node: fx.Node) -> str | None:
    """Why a node may give something else another time; of operators that are not torch's own nobody knows."""
    target = node.args[1] if node.target is with_effects else node.target
    of_sizes = isinstance(node.meta.get("val"), py_sym_types)
    if node.op != "call_function" or target is operator.getitem or target in _CHECKS or of_sizes:
        return None
    if not isinstance(target, OpOverload) or target.namespace not in _OWN or node.target is with_effects:
        return f"it calls {target}, which is no plain operator of torch's own"
    if effects_of_node(node).hides_writes or effects_of_node(node).is_unsure:
        return f"it calls {target}, of which it is not known what it writes"
    if draws_random_numbers(node):
        return f"it draws random numbers ({target})"
    return None


def _reaches_results(gm: fx.GraphModule, written: Sequence[int], metadata: Any) -> bool:
    """Whether a result, or a value that results are views of, is computed from what these arguments held."""
    arguments = list(gm.graph.find_nodes(op="placeholder"))
    if len(arguments) != len(metadata.input_info):
        return True
    reached = {arguments[place] for place in written}
    for node in gm.graph.nodes:
        if any(one in reached for one in node.all_input_nodes) and _carries(node, reached):
            reached.add(node)
    given = tree_leaves(gm.graph.output_node().args)
    results = given[len(metadata.mutated_inp_runtime_indices) : metadata.num_forward_returns]
    return any(one in reached for one in results)


def _carries(node: fx.Node, reached: set[fx.Node]) -> bool:
    """Whether a node that is given what was reached depends on it: not every part of a norm's results does."""
    if node.target is not operator.getitem:
        return True
    source, place = node.args
    if not isinstance(source, fx.Node) or source.target is not _NORM or source.args[_TRAINS] is not True:
        return True
    others = [one for at, one in enumerate(source.args) if at not in _STATISTICS]
    return place in _STATISTICS or any(one in reached for one in others if isinstance(one, fx.Node))


def _of_results(metadata: Any) -> Iterator[GradientOf | None]:
    for place, result in enumerate(metadata.output_info):
        yield GradientOf(place) if result.output_type in _ITSELF else None


def _of_values(metadata: Any) -> Iterator[GradientOf | None]:
    views: dict[int, int] = {}
    for place, result in enumerate(metadata.output_info):
        if result.output_type in _OF_A_VALUE:
            views.setdefault(result.base_idx, place)
    for value in range(metadata.num_intermediate_bases):
        yield GradientOf(views[value], whole=True) if value in views else None
