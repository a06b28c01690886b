"""Whether a call that Dynamo does not guard is of the kind that was compiled: tensors of the same types and sizes.

A replay copies what it is given into memory of its own: another type would be converted, and a smaller tensor repeated,
without a word.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor, fx, nn

from air_aclgraph import exact
from air_backend._layouts import Layout
from air_backend._open_sizes import OpenSizes, is_open
from air_backend.errors import OtherInput
from air_graph.page import text_of

_NUMBERS = (int, float, bool, complex, str)


class Kinds:
    """What each argument was in the example that a graph was compiled for; a size that was open may be another one.

    One that the trace has several times, or that others follow from, is the same everywhere.
    """

    def __init__(self, examples: Sequence[Any]) -> None:
        self._examples = tuple(examples)
        self._sizes = OpenSizes(self._examples)
        fixed = [
            (place, one.dtype, torch.Size(one.shape))
            for place, one in enumerate(examples)
            if isinstance(one, Tensor) and not is_open(one)
        ]
        weights = {place for place, *_ in fixed if isinstance(examples[place], nn.Parameter)}
        self._fixed = [row for row in fixed if row[0] not in weights]
        self._weights = [row for row in fixed if row[0] in weights]
        self._known: list[Callable[[], Any]] = [_nothing] * len(self._weights)
        """The parameters of the last call: the same are not looked at again."""
        self._numbers = [(place, one) for place, one in enumerate(examples) if type(one) in _NUMBERS]

    def check(self, args: Sequence[Any]) -> None:
        """Raises where a call differs."""
        if (told := self.difference(args)) is not None:
            raise OtherInput(told)

    @property
    def layouts(self) -> list[tuple[int, Layout]]:
        """The tensors of the example that lie at strides of their own, by their places."""
        return [
            (place, Layout(one.device, one.stride()))
            for place, one in enumerate(self._examples)
            if isinstance(one, Tensor) and one.layout is torch.strided and not is_open(one)
        ]

    def open_layouts(self, args: Sequence[Any]) -> list[tuple[int, Layout]]:
        """How the tensors with open sizes were traced to lie where these have the sizes of a call that fits."""
        extents = self._sizes.extents(args) if self._sizes.tensors else {}
        return [
            (place, Layout(self._examples[place].device, extent.strides)) for place, extent in extents.items()
        ]

    def difference(self, args: Sequence[Any]) -> str | None:
        """In which argument a call differs, and how; None where it fits."""
        if len(args) != len(self._examples):
            return f"{len(args)} arguments are given, the example had {len(self._examples)}"
        try:
            place = self._other_tensor(args)
        except AttributeError:
            place = next(i for i in range(len(args)) if _is_no_tensor(args[i], self._examples[i]))
        if place is None:
            place = next((place for place, number in self._numbers if _is_other(args[place], number)), None)
        return None if place is None else self._told(args, place)

    def _other_tensor(self, args: Sequence[Any]) -> int | None:
        """The place of a tensor of another type or size; raises where something is none."""
        for place, dtype, shape in self._fixed:
            given = args[place]
            if given.dtype is not dtype or given.shape != shape:
                return place
        for at, (place, dtype, shape) in enumerate(self._weights):
            given = args[place]
            if given is not self._known[at]():
                if given.dtype is not dtype or given.shape != shape:
                    return place
                self._known[at] = weakref.ref(given)
        return self._other_open_size(args)

    def _other_open_size(self, args: Sequence[Any]) -> int | None:
        """The place of an argument whose sizes the trace left open, and that does not fit the other arguments."""
        open_ones = self._sizes.tensors
        place = next(
            (place for place in open_ones if not _is_alike(args[place], self._examples[place])), None
        )
        if place is None:
            place = next((place for place in self._sizes.numbers if type(args[place]) is not int), None)
        if place is not None or not open_ones:
            return place
        extents = self._sizes.extents(args)
        return next((place for place in open_ones if not _fits(args[place], extents[place].sizes)), None)

    def _told(self, args: Sequence[Any], place: int) -> str:
        known = self._examples[place]
        told = f"argument {place} is {_named(args[place])}, and was {_named(known)}"
        if place in self._sizes.tensors and _is_alike(args[place], known):
            told += f", where {self._sizes.symbols(args, place)}"
        return told


def _is_other(given: Any, number: Any) -> bool:
    if type(given) is type(number):
        return bool(exact(given) != exact(number))
    return bool(given != number)


def _nothing() -> None:
    """Stands for a parameter that no call had."""


def _is_alike(given: Any, example: Tensor) -> bool:
    return given.dtype is example.dtype and given.dim() == example.dim()


def _fits(given: Tensor, sizes: Sequence[int | None]) -> bool:
    """Whether a tensor has these sizes, as far as they are known."""
    return given.shape == sizes or all(
        known in (None, size) for size, known in zip(given.shape, sizes, strict=True)
    )


def _is_no_tensor(given: Any, example: Any) -> bool:
    return isinstance(example, Tensor) and not isinstance(given, Tensor)


def _named(value: Any) -> str:
    return text_of(value) if isinstance(value, Tensor) else repr(value)


def example_values(gm: fx.GraphModule) -> list[Any]:
    """The values that a graph was traced for."""
    return [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]


#: Where a trace notes the value of a node: one of ATen operators, and one of Dynamo's.
_NOTED: Final = ("val", "example_value")


def traced_values(gm: fx.GraphModule) -> list[Any] | None:
    """The values that the trace notes of the arguments; None where it does not."""
    places = gm.graph.find_nodes(op="placeholder")
    noted = [_noted(node) for node in places]
    return None if any(value is _nothing for value in noted) else noted


def kinds_of(gm: fx.GraphModule, examples: Sequence[Any]) -> Kinds:
    """The kinds of arguments that the trace says, or else the example."""
    places = gm.graph.find_nodes(op="placeholder")
    pairs = zip(places, examples, strict=False)
    return Kinds([_noted(node, example) for node, example in pairs])


def _noted(node: fx.Node, otherwise: Any = _nothing) -> Any:
    return next((node.meta[name] for name in _NOTED if name in node.meta), otherwise)
