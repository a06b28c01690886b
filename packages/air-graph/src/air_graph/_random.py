"""Whether a call draws random numbers, so that it may not be left out, doubled, or moved past another that does.

torch tags the operators that may. Many of them draw only where they drop something, and torch_npu leaves the tag out of
some: what decides is then the argument that says how much is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch.fx import Node

from air_graph._uses import nodes_of_bodies, operator_of

#: The arguments that say how much is dropped, and their value where nothing is.
_NOTHING_DROPPED: Final = {"dropout_p": 0.0, "dropout_prob": 0.0, "dropout": 0.0, "keep_prob": 1.0}
#: Operators of torch_npu that draw and have no tag.
_UNTAGGED: Final = frozenset(
    {"npu::npu_fusion_attention_v3", "npu::npu_fused_attention_score", "npu::npu_fused_attention_score_fwd"}
)


def draws_random_numbers(node: Node) -> bool:
    """Whether a node draws random numbers when it runs, in the graphs that it is given too.

    Of what is no operator nobody can say, and it does not.
    """
    if (called := operator_of(node)) is not None:
        return call_draws(called[0], node.args[called[1] :], node.kwargs)
    return any(draws_random_numbers(inner) for inner in nodes_of_bodies(node))


def call_draws(target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call of an operator draws random numbers."""
    if torch.Tag.nondeterministic_seeded not in target.tags and target._schema.name not in _UNTAGGED:
        return False
    dropped = [
        (_NOTHING_DROPPED[argument.name], _given(argument, place, args, kwargs))
        for place, argument in enumerate(target._schema.arguments)
        if argument.name in _NOTHING_DROPPED
    ]
    return not dropped or any(value != nothing for nothing, value in dropped)


def _given(argument: Any, place: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return args[place] if place < len(args) else kwargs.get(argument.name, argument.default_value)
