"""Whatever a test of converters runs by the reference engine: a kernel that gives a view of an operand says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torch import Tensor
from torch.utils._pytree import tree_leaves

from air_geir.reference._plan import Plan, Planner
from air_geir.reference.kernels import kernel_for

made = Planner.make


def memory_of(values: Any) -> set[int]:
    tensors = (leaf for leaf in tree_leaves(values) if type(leaf) is Tensor and leaf.numel())
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


def watched(function: Callable[..., Any], kind: str, found: set[str]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        results = function(*args)
        if memory_of(results) & memory_of(args):
            found.add(kind)
        return results

    return run


@pytest.fixture(autouse=True)
def views_are_declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A result that lies in the memory of an argument unnoticed would be given back without a copy."""
    found: set[str] = set()

    def make(self: Planner) -> Plan:
        plan = made(self)
        for step in plan.steps:
            kernel = kernel_for(step.node.op_type) if step.node is not None else None
            if kernel is not None and not kernel.views and not kernel.writes:
                step.function = watched(step.function, step.label, found)
        return plan

    monkeypatch.setattr(Planner, "make", make)
    yield
    assert not found, "these kernels give views of operands and do not say so"
