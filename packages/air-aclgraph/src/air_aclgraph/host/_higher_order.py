"""Records a higher-order operator (`torch.cond`, `while_loop`, `scan`, ...) as one task that runs it again.

    y = cond(p, f, g, (x,))    ->    land(cond(p, f, g, (x,)))      # in every replay

What it decides, it decides again at every replay, from the values that are there then: another branch may be taken
than at the recording, another number of rounds run.  Its results are copied into memory that was set aside for them
when it was recorded, so that what follows finds them where it looks.  What a replay cannot follow is an error that
names the operator: a result of another size or dtype, and a number that comes out different.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils._pytree import tree_leaves, tree_map

from air_aclgraph._decisions import OF_RESULTS
from air_aclgraph._outputs import cloner
from air_aclgraph.errors import IllegalDuringCapture
from air_graph import Ownership, SourceLine, storage_of


def run_below_autograd(hop: HigherOrderOperator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The operator's own kernel: what a capture runs was differentiated when the graph was made."""
    with torch._C._AutoDispatchBelowAutograd():
        return hop(*args, **kwargs)


def own_results(args: Sequence[Any], known: set[int], result: Any) -> Any:
    """The results, each in memory of its own.

    Which memory a body hands back (an operand, a constant of its own, one tensor twice) may change with the branch.
    Only the schema of a wrapped operator promises that a result is always the same operand.
    """
    promised = any(isinstance(arg, OpOverload) and _aliases(arg) for arg in args)

    def own(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or (promised and storage_of(leaf) in known):
            return leaf
        return cloner([leaf], [Ownership(0, 0, True)])()[0]

    return tree_map(own, result)


def _aliases(overload: OpOverload) -> bool:
    return any(result.alias_info is not None for result in overload._schema.returns)


@dataclass(frozen=True)
class ResultTargets:
    """Where the results of a replay belong: to those of the recording, except the unused ones."""

    hop: str
    place: SourceLine | None
    results: Any
    unused: frozenset[int]

    def into(self, memory: Sequence[Tensor]) -> Callable[[Any], None]:
        """Takes results to where the following operators look for them, which is `memory` or memory of operands."""
        owned = {id(tensor) for tensor in memory}
        known = [(i, leaf) for i, leaf in enumerate(tree_leaves(self.results)) if i not in self.unused]

        def land(results: Any) -> None:
            leaves = tree_leaves(results)
            for index, leaf in known:
                found = leaves[index]
                problem = _difference(leaf, found)
                if problem is not None:
                    raise _changed(self.hop, self.place, f"result {index} {problem}")
                if id(leaf) in owned:
                    leaf.copy_(found)
                elif isinstance(leaf, Tensor) and found.data_ptr() != leaf.data_ptr():
                    raise _changed(self.hop, self.place, f"result {index} lies in other memory")

        return land


def _difference(leaf: Any, found: Any) -> str | None:
    """How a result cannot take the place of the recorded one."""
    if not isinstance(leaf, Tensor) or not isinstance(found, Tensor):
        same = type(found) is type(leaf) and found == leaf
        return None if same else f"is {found!r} now and was {leaf!r}"
    if found.shape == leaf.shape and found.dtype == leaf.dtype:
        return None
    now, then = (f"{t.dtype} of size {tuple(t.shape)}" for t in (found, leaf))
    return f"is {now} now and was {then}"


def _changed(hop: str, place: SourceLine | None, what: str) -> IllegalDuringCapture:
    return IllegalDuringCapture(
        f"a replay of {hop} cannot be followed by the operators that were captured after it: {what}",
        where=place,
        advice=OF_RESULTS + ", or run this model with run_eagerly",
        operator=hop,
    )
