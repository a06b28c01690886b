"""One call of an operator as a rule sees it: arguments by their names, and the labels of those that are tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._ops import OpOverload
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from air_fxpasses.padding._labels import Label, Labels, PaddedSize, Unproven
from air_graph import named_arguments

LabelsOfNode = Labels | tuple[Labels | None, ...] | None
"""What is known of a node: the labels of its tensor, or by place of each of its tensors; None of anything else."""


@dataclass
class NodeFacts:
    """What is known of the nodes so far."""

    labels: dict[Node, LabelsOfNode] = field(default_factory=dict)
    positions: set[Node] = field(default_factory=set)
    """Those that hold, in each element, its own index in the padded dimension."""
    copies: set[Node] = field(default_factory=set)
    """Those whose padding is copies of their first rows, as that of the inputs is."""
    needs_copies: bool = False


class Call:
    """A node that calls an ATen operator."""

    def __init__(self, node: Node, padded: PaddedSize, known: NodeFacts) -> None:
        assert isinstance(node.target, OpOverload)
        self.node = node
        self.padded = padded
        self.schema = node.target._schema
        self.positions: Set[Node] = known.positions
        self.copies: Set[Node] = known.copies
        self._known = known
        self.arguments = named_arguments(node, node.target, defaults=True)

    def __getitem__(self, name: str) -> Any:
        return self.arguments.get(name)

    def value(self, argument: Any) -> Any:
        """The example value of an argument that is a node, the argument itself otherwise."""
        return argument.meta.get("val") if isinstance(argument, Node) else argument

    def tensors(self, name: str | None = None) -> Iterator[tuple[tuple[Any, ...], Labels]]:
        """Sizes and labels of the tensors that an argument holds, or all arguments."""
        wanted = self.arguments.values() if name is None else [self.arguments.get(name)]
        for leaf in tree_leaves(list(wanted)):
            if isinstance(leaf, Node) and isinstance(leaf.meta.get("val"), Tensor):
                yield self.padded.sizes_of(leaf.meta["val"]), self._labels(leaf)

    def _labels(self, node: Node) -> Labels:
        labels: Any = self._known.labels[node]
        return labels  # type: ignore[no-any-return]  # of a single tensor

    def rely_on_copies(self, relies: bool) -> None:
        """Says that what is proven holds for padding that is copies of first rows, and no other."""
        self._known.needs_copies |= relies

    def is_padded(self, node: Node) -> bool:
        """Whether a tensor has padding."""
        return isinstance(node.meta.get("val"), Tensor) and any(self._labels(node))

    def one(self, name: str = "self") -> tuple[tuple[Any, ...], Labels]:
        """Sizes and labels of an argument that is one tensor; those of a scalar where there is none."""
        return next(self.tensors(name), ((), ()))

    def labels(self, name: str = "self") -> Labels:
        return self.one(name)[1]

    def numbers(self) -> Iterator[tuple[str, Any]]:
        """The numbers among the arguments, as expressions, with the argument they are in."""
        for name, argument in self.arguments.items():
            for leaf in tree_leaves(argument):
                value = self.value(leaf)
                if isinstance(value, (int, SymInt, SymFloat, SymBool)) and not isinstance(value, bool):
                    yield name, self.padded.expression(value)

    def number(self, name: str, default: int = 0) -> Any:
        """A number as an expression; `default` where None was given."""
        value = self.value(self[name])
        return self.padded.expression(default if value is None else value)

    def dims(self, name: str, rank: int) -> tuple[int, ...]:
        """Dimensions an argument names, none of them negative; all of them where it names none."""
        given = self[name]
        if given is None or given == []:
            return tuple(range(rank))
        listed: Sequence[int] = given if isinstance(given, (list, tuple)) else [given]
        return tuple(dim % rank if rank else 0 for dim in listed)

    def outputs(self) -> tuple[Tensor, ...]:
        """The example tensors of the result."""
        value = self.node.meta.get("val")
        return tuple(v for v in tree_leaves(value) if isinstance(v, torch.Tensor))

    def require_none(self, labels: Sequence[Label | None], why: str) -> None:
        """Refuses unless none of these dimensions has padding."""
        if any(label is not None for label in labels):
            raise Unproven(why)
