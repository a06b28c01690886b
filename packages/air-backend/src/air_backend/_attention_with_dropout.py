"""Attention of torch_npu with dropout: the form that hands its random state on to the gradient as tensors.

    r = npu_fusion_attention(q, k, v, 8, "BSH", keep_prob=0.9)   ->   r = npu_fusion_attention_v3(...)

The older forms give seed, offset and size of the mask as numbers. A trace has no numbers of a run: the gradient would
be told 0, 0 and 0, and make another mask, with any compiler. Both draw the same mask and compute the same. A graph with
a call that the new form cannot stand for, and that is trained, is refused, so that it runs eagerly.

The new form also stands for the second one without dropout where that is trained: torch_npu cannot trace its gradient.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from air_backend.errors import SeedsLost
from air_graph import called_operator, find_operator, name_of, named_arguments, source_of

_OLDER: Final = ("npu::npu_fusion_attention.default", "npu::npu_fusion_attention_v2.default")
_UNTRACED: Final = "npu::npu_fusion_attention_v2.default"
_NEW: Final = "npu::npu_fusion_attention_v3.default"
_RENAMED: Final = {"pre_tokens": "pre_tockens", "next_tokens": "next_tockens"}
#: Lists of numbers in the older forms, tensors in the new one.
_LENGTHS: Final = ("actual_seq_qlen", "actual_seq_kvlen")
_RESULTS: Final = 4
"""The tensors that all forms give; what comes after them is the random state."""


def hand_seeds_on(gm: GraphModule) -> None:
    """Writes the new form where it can stand for the older ones, also in the graphs inside this one."""
    new = find_operator(_NEW)
    if new is None or "torch_npu" not in sys.modules:  # the references of AIR keep to the numbers
        return
    for module in gm.modules():
        if isinstance(module, GraphModule):
            for node, op in list(_older(module)):
                given = _given(node, op, new)
                if given is not None:
                    _replace(module, node, new, given)


def refuse_lost_seeds(gm: GraphModule) -> None:
    """Raises for a call with dropout that is left, and whose gradient is wanted."""
    if "torch_npu" not in sys.modules:
        return
    for module in gm.modules():
        if isinstance(module, GraphModule):
            for node, op in _older(module):
                if _drops(node, op) and _trains(node):
                    raise SeedsLost(name_of(op), source_of(node))


def _drops(node: Node, op: OpOverload) -> bool:
    return bool(named_arguments(node, op).get("keep_prob", 1.0) != 1.0)


def _trains(node: Node) -> bool:
    """Whether a gradient of the call is wanted."""
    return torch.is_grad_enabled() and any(map(_is_trained, node.all_input_nodes))


def _is_trained(node: Node) -> bool:
    value = node.meta.get("example_value", node.meta.get("val"))
    return isinstance(value, torch.Tensor) and value.requires_grad


def _older(gm: GraphModule) -> Iterator[tuple[Node, OpOverload]]:
    known = {op for op in map(find_operator, _OLDER) if op is not None}
    for node in gm.graph.nodes:
        op = called_operator(node)
        if op is not None and op in known:
            yield node, op


def _given(node: Node, op: OpOverload, new: OpOverload) -> Mapping[str, Any] | None:
    """The arguments for the new form; None where it cannot stand for this call, or need not."""
    if not _drops(node, op) and not (name_of(op) == _UNTRACED and _trains(node)):
        return None
    given = named_arguments(node, op)
    if any(user.target is not operator.getitem or _place(user) >= _RESULTS for user in node.users):
        return None
    defaults = {a.name: a.default_value for a in op._schema.arguments if a.has_default_value()}
    known = {a.name for a in new._schema.arguments}
    found: dict[str, Any] = {}
    for name, value in given.items():
        renamed = _RENAMED.get(name, name)
        if renamed in known and (name not in _LENGTHS or value is None):
            found[renamed] = value
        elif value != defaults.get(name):
            return None
    return found


def _place(user: Node) -> int:
    place = user.args[1]
    return place if isinstance(place, int) and place >= 0 else _RESULTS


def _replace(gm: GraphModule, node: Node, new: OpOverload, given: Mapping[str, Any]) -> None:
    with gm.graph.inserting_before(node):
        call = gm.graph.call_function(new, (), dict(given))
    call.meta.update({key: value for key, value in node.meta.items() if key not in ("example_value", "val")})
    node.replace_all_uses_with(call)
    gm.graph.erase_node(node)
