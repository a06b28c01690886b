"""Results that are views of what a `torch.autograd.Function` gives keep its backward.

    class Reversed(torch.autograd.Function):      forward: x.view_as(x)      backward: -g

    def step(x):
        return Reversed.apply(x)[:1]

The result is a view of `x`. AOTAutograd makes such results again when the graph has run, from the arguments, or from
a value of the graph where several results are views of it, and the gradient of `[:1]` alone is left: the backward of
the function is lost, without a word and with every backend. What it does not make again is what comes right from a
function and lies in an argument, and what has memory of its own. So a result of the one kind is given a function that
does nothing, and one of the other a copy; where the value is a result itself, or the function is one that writes to an
argument, the graph runs eagerly.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._functorch.autograd_function import autograd_function_apply
from torch.autograd.function import BackwardCFunction
from torch.fx.node import map_arg

from air_backend.errors import BackwardRefused
from air_graph import leaf_storages, storage_key, written_by_name


class Itself(torch.autograd.Function):
    """Gives what it is given."""

    @staticmethod
    def forward(ctx: Any, result: Tensor) -> Tensor:
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


def calls_functions(gm: fx.GraphModule) -> bool:
    """Whether a graph calls functions with a backward of their own, itself or in graphs that it is given."""
    graphs = [part.graph for part in gm.modules() if isinstance(part, fx.GraphModule)]
    return any(graph.find_nodes(op="call_function", target=autograd_function_apply) for graph in graphs)


def keep_backward_of_functions(gm: fx.GraphModule) -> None:
    """Looks at the results of a graph that calls such functions, when it is traced."""
    if not calls_functions(gm) or not torch.is_grad_enabled():
        return
    functions = gm.graph.find_nodes(op="call_function", target=autograd_function_apply)
    arguments = gm.graph.find_nodes(op="placeholder")
    (end,) = gm.graph.find_nodes(op="output")
    results = list(dict.fromkeys(end.all_input_nodes))
    with gm.graph.inserting_before(end):
        written = [node for function in functions for node in _written(gm, function)]
        kept = gm.graph.call_function(with_backward, (results, arguments, written))
        kept.meta["stack_trace"] = (functions or [end.prev])[-1].meta.get("stack_trace")
        each = {result: result for result in results}
        for at, result in enumerate(results):
            if result.op == "call_function":
                each[result] = gm.graph.call_function(operator.getitem, (kept, at))
                each[result].meta = dict(result.meta)
    end.args = map_arg(end.args, each.__getitem__)
    gm.recompile()


def _written(gm: fx.GraphModule, function: fx.Node) -> list[fx.Node]:
    """The results of a function that are marked dirty; what its forward writes, where torch (2.11) does not say it."""
    if "dirty_idx" in function.kwargs:
        places: Any = function.kwargs["dirty_idx"]
        return [gm.graph.call_function(operator.getitem, (function, at)) for at in places]
    body, _, *given = function.args
    forward = gm.get_submodule(str(body.target)) if isinstance(body, fx.Node) else None
    if not isinstance(forward, fx.GraphModule):
        return []
    names = forward.graph.find_nodes(op="placeholder")
    outside = dict(zip(reversed(names), reversed(given), strict=False))
    found = [outside.get(name) for node in forward.graph.nodes for name in written_by_name(node)]
    return [value for value in found if isinstance(value, fx.Node)]


def with_backward(
    results: Sequence[Any], arguments: Sequence[Any], written: Sequence[Tensor] = ()
) -> list[Any]:
    """The results, each with the backward of the functions that it went through; `written` are those marked dirty."""
    tensors = [one for one in arguments if isinstance(one, Tensor)]
    given = frozenset(leaf_storages(arguments))
    if any(isinstance(one.grad_fn, BackwardCFunction) for one in tensors) or any(
        one.requires_grad and storage_key(one) in given for one in written
    ):
        raise BackwardRefused("writes to an argument of the graph (mark_dirty)")
    return [_kept(result, given, results) for result in results]


def _kept(result: Any, given: frozenset[int], results: Sequence[Any]) -> Any:
    function = _function_of(result) if isinstance(result, Tensor) and result.requires_grad else None
    if function is None:
        return result
    if storage_key(result) in given:
        return Itself.apply(result)  # type: ignore[no-untyped-call]
    others = (one for one in results if isinstance(one, Tensor) and one is not result)
    sharing = [one for one in others if storage_key(one) == storage_key(result)]
    base = result._base
    if not sharing or base is None or _function_of(base) is function:
        return result
    if any(_function_of(one) is None for one in sharing):
        raise BackwardRefused("gives a view of a value, and the graph returns another tensor in its memory")
    return _copied(result)


def _copied(result: Tensor) -> Tensor:
    """The same in memory of its own, which lies as the result does where no two elements lie in one place."""
    if any(step == 0 and size > 1 for size, step in zip(result.shape, result.stride(), strict=True)):
        return result.clone()
    place = torch.empty_strided(result.shape, result.stride(), dtype=result.dtype, device=result.device)
    return place.copy_(result)


def _function_of(result: Tensor) -> BackwardCFunction | None:
    """The function from whose result views lead to this one."""
    made: Any = result.grad_fn
    while made is not None and not isinstance(made, BackwardCFunction):
        made = made.next_functions[0][0] if len(made.next_functions) == 1 else None
    return made
