"""Operators that choose which graph runs, and those that only order others."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel, plain


def _true(condition: Tensor) -> bool:
    """A single value counts as its truth, anything else as not being empty."""
    return bool(condition.item()) if condition.numel() == 1 else condition.numel() > 0


@kernel("If")
def if_(op: Operator) -> Run:
    """Runs one of two graphs."""
    then_branch, else_branch = op.subgraphs["then_branch"], op.subgraphs["else_branch"]

    def run(cond: Tensor, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        results: Sequence[Tensor] = (then_branch if _true(cond) else else_branch)(inputs, ())
        return results

    return run


@kernel("Case")
def case(op: Operator) -> Run:
    """Runs one of several graphs; an index out of range runs the last."""
    branches = list(op.subgraphs.values())

    def run(index: Tensor, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        at = int(index)
        results: Sequence[Tensor] = branches[at if 0 <= at < len(branches) else -1](inputs, ())
        return results

    return run


@kernel("PartitionedCall")
def partitioned_call(op: Operator) -> Run:
    """Runs a graph."""
    body = op.subgraphs["f"]
    return lambda args: body(args, ())


plain(  # they order others; a prefetch goes into a cache that the host does not have
    {"NoOp": lambda: (), "ControlTrigger": lambda: (), "Cmo": lambda src: ()}
)
