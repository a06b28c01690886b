"""Marks in Dynamo's graph what operators of torch_npu write on the device although their schemas do not say so.

    r = npu_apply_rotary_pos_emb(q, k, ...)          r = npu_apply_rotary_pos_emb(q, k, ...)
    use(r[0], r[1], q)                       ->      q.copy_(r[0]); k.copy_(r[1])
                                                     use(q, k, q)

AOTAutograd goes by schemas: it would read `q` as it was before, and drop a call whose results nobody uses. Which
operators write what is known to `air_graph`; this is for those whose results are the arguments that they write.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import has_side_effect
from torch.utils._pytree import tree_leaves

from air_backend._aliasing_check import unchecked
from air_graph import (
    called_operator,
    collectives_of_other_libraries,
    hidden_writers,
    hidden_writes,
    is_collective,
    is_functional_collective,
    leaf_storages,
    named_arguments,
)

#: Operator -> the written argument that each result is.
_RESULTS: Final = {"npu::npu_apply_rotary_pos_emb": ("query", "key")}
#: Puts something around the function that Dynamo will call.
Around: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
_seen: Final[set[Any]] = set()


def mark_writes(gm: GraphModule) -> Around:
    """Writes the copies, in this graph and in those inside it, and keeps hidden writers and collectives.

    What comes back is to be put around the function that AOTAutograd makes of the graph: torch checks that results of
    operators share no memory with arguments, and here they do, on the device, as the graph says then.
    """
    returns_arguments = False
    _keep([*hidden_writers(), *collectives_of_other_libraries()])  # the backward of an operator may call them
    for module in gm.modules():
        if isinstance(module, GraphModule):
            for node, overload in list(_writers(module)):
                _keep([overload])
                if overload._schema.name in _RESULTS and _is_on_npu(node):
                    _copy_back(node, overload)
                    returns_arguments = True
    return unchecked if returns_arguments else _as_it_is


def written_in_hiding(gm: GraphModule) -> frozenset[int]:
    """The places of the arguments that such operators write, or views of them; all for a call in an inner graph."""
    places = gm.graph.find_nodes(op="placeholder")
    inner = (each for each in gm.modules() if isinstance(each, GraphModule) and each is not gm)
    if any(hidden_writes(op) for module in inner for _, op in _writers(module)):
        return frozenset(range(len(places)))
    written = {
        storage
        for node, op in _writers(gm)
        for name in hidden_writes(op) or ()
        for argument in tree_leaves(named_arguments(node, op).get(name))
        for storage in leaf_storages(_example(argument))
    }
    return frozenset(
        at for at, node in enumerate(places) if written.intersection(leaf_storages(_example(node)))
    )


def _example(argument: Any) -> Any:
    return (
        argument.meta.get("example_value", argument.meta.get("val")) if isinstance(argument, Node) else None
    )


def _keep(ops: Iterable[torch._ops.OpOverload]) -> None:
    """Calls of these operators are not dead where nobody takes their results."""
    for op in ops:
        if op not in _seen:
            has_side_effect(op)
            _seen.add(op)


def _as_it_is(compiled: Callable[..., Any]) -> Callable[..., Any]:
    return compiled


def _writers(gm: GraphModule) -> Iterator[tuple[Node, torch._ops.OpOverload]]:
    for node in gm.graph.nodes:
        op = called_operator(node)
        if op is not None and _is_never_dead(op):
            yield node, op


def _is_never_dead(op: torch._ops.OpOverload) -> bool:
    """Whether others see that an operator ran: who reads what it writes, or the ranks that wait for it."""
    return hidden_writes(op) is not None or (is_collective(op) and not is_functional_collective(op))


def _is_on_npu(node: Node) -> bool:
    """Elsewhere the reference computes, which keeps to the schema."""
    values = map(_example, node.all_input_nodes)
    return any(isinstance(value, torch.Tensor) and value.device.type == "npu" for value in values)


def _copy_back(node: Node, overload: torch._ops.OpOverload) -> None:
    given = named_arguments(node, overload)
    names_written = _RESULTS[overload._schema.name]
    written = [argument for name in names_written if isinstance(argument := given[name], Node)]
    picked = {user: user.args[1] for user in node.users if user.target is operator.getitem}
    if len(picked) != len(node.users) or len(written) != len(names_written):
        return
    graph = node.graph
    with graph.inserting_after(node):
        results = [graph.call_function(operator.getitem, (node, at)) for at in reversed(range(len(written)))]
    results.reverse()
    after = results[-1]
    for result, argument in zip(results, written, strict=True):
        _describe(result, argument)
        with graph.inserting_after(after):
            after = graph.call_method("copy_", (argument, result))
            _describe(after, argument)
    for user, at in picked.items():
        assert isinstance(at, int)
        user.replace_all_uses_with(written[at])
        graph.erase_node(user)


def _describe(node: Node, like: Node) -> None:
    told = ("example_value", "val", "stack_trace", "nn_module_stack", "custom")
    node.meta.update({key: like.meta[key] for key in told if key in like.meta})
