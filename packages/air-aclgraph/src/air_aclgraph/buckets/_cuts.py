"""Which part of the results of a padded run is the caller's.

memory of the capture    the part without padding, or a copy of it where eager would lay it out otherwise; results
                         that share memory share it in the copy
a view of an input       the same view of the caller's own tensor: the padded run has read a copy of that
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import sympy  # type: ignore[import-untyped]  # sympy ships no annotations
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from air_aclgraph._memory import extent, flat, overlaps_itself
from air_aclgraph._outputs import InputView, related
from air_aclgraph._results import Result
from air_aclgraph.buckets._buffers import Values, shape_of
from air_aclgraph.buckets._proven import Bucket
from air_fxpasses.padding import Labels
from air_graph import storage_of, with_bits_of

Shape = tuple[list[int], list[int]]
"""Sizes and strides."""


class Part(NamedTuple):
    """A dimension with padding: `outer` blocks of `size` rows each, of which the first `used` are the caller's."""

    dim: int
    outer: int
    size: int
    used: int


@dataclass(frozen=True)
class Cut:
    """How one tensor of a padded run becomes the caller's."""

    example: Tensor
    padded: Values
    used: Values
    parts: tuple[Part, ...]
    whole: Shape
    """Of the padded run, as the trace says."""
    wanted: Shape
    """Of the caller's, as eager lays it out."""
    _views: dict[int, tuple[int, InputView]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, example: Tensor, labels: Sequence[tuple[Bucket, Labels]], padded: Values, used: Values
    ) -> Cut:
        """The cut that follows from where padding lies in a result."""
        parts = [
            Part(dim, int(label.outer.xreplace(used)), padded[bucket.symbols[0]], used[bucket.symbols[0]])
            for bucket, each in labels
            for dim, label in enumerate(each)
            if label is not None
        ]
        shapes = (shape_of(example, padded), shape_of(example, used))
        return cls(example, padded, used, tuple(parts), *shapes)

    def part_of(self, result: Tensor) -> Tensor:
        """The caller's elements, where they are if that is possible."""
        for part in self.parts:
            if part.outer == 1:
                result = result.narrow(part.dim, 0, result.shape[part.dim] // part.size * part.used)
            else:
                rows = result.unflatten(part.dim, (part.outer, part.size, -1))
                result = rows.narrow(part.dim + 1, 0, part.used).flatten(part.dim, part.dim + 2)
        return result

    def is_of(self, result: Tensor) -> bool:
        """Whether the run has laid out its result as the trace says."""
        return _has(result, self.whole)

    def fits(self, part: Tensor, result: Tensor) -> bool:
        """Whether the caller's elements lie where eager has them, as far as that matters."""
        if not _has(part, self.wanted):
            return False
        begin = result.storage_offset()
        return begin == 0 or part.storage_offset() == self.offset or begin != self._begin(self.padded)

    def view_of(self, result: Tensor, source: PaddedSource, caller: Tensor) -> Tensor:
        """What a result, a view of the memory of a padded input, is of the caller's own tensor.

        A copy where the run has made another view than the trace says.
        """
        begin, view = self._views.get(source.index) or self._view(source)
        if not self.is_of(result) or result.storage_offset() * result.element_size() != begin:
            return self.part_of(result).clone()
        return view.of(caller)

    def _view(self, source: PaddedSource) -> tuple[int, InputView]:
        """The byte at which the padded run has the view of this input, and what it is of the caller's."""
        distance, example = _start(self.example) - _start(source.example), self.example
        sizes, strides = map(tuple, self.wanted)
        offset = int(distance.xreplace(self.used)) // example.element_size()
        bits = (example.is_conj(), example.is_neg())
        view = InputView(source.index, sizes, strides, offset, example.dtype, *bits)
        begin = int(_start(source.buffer) + distance.xreplace(self.padded))
        self._views[source.index] = begin, view
        return begin, view

    @cached_property
    def changes(self) -> bool:
        """Whether a padded result differs from the caller's in more than its values."""
        return bool(self.parts) or self.wanted != self.whole

    @cached_property
    def offset(self) -> int:
        """The element of its storage at which the caller's result begins in eager."""
        return self._begin(self.used)

    def _begin(self, values: Values) -> int:
        return int(_start(self.example).xreplace(values)) // self.example.element_size()

    @cached_property
    def end(self) -> int:
        """The elements that a storage has to have for it."""
        return self.offset + extent(torch.empty_strided(*self.wanted, device="meta"))


@dataclass(frozen=True)
class PaddedSource:
    """An input, what the trace knows of it, and the memory that it is padded in."""

    index: int
    example: Tensor
    buffer: Tensor


@dataclass(frozen=True)
class Cuts:
    """How the results of runs with one combination of sizes become the caller's."""

    cuts: tuple[Cut | int | None, ...]
    """By result; a number is one, and None stays as it is."""
    given: Sequence[int | None]
    """The input that a result is."""
    results: Sequence[Result]
    again: Mapping[int, int]
    """The results that are an earlier one once more."""
    sources: Mapping[int, PaddedSource]
    """By the storage of their memory, which the next call overwrites."""
    lent: bool
    """Whether the use of results is guarded: each stays the object that it is."""

    def __call__(self, results: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        made: list[Any] = list(results)
        together: dict[int, list[int]] = {}
        for place, (result, cut) in enumerate(zip(results, self.cuts, strict=True)):
            index = self.given[place]
            if index is not None:
                made[place] = args[index]
            elif isinstance(cut, int):
                made[place] = cut
            elif cut is not None and place not in self.again:
                storage = storage_of(result)
                source = self.sources.get(storage)
                if source is None:
                    together.setdefault(storage, []).append(place)
                else:
                    made[place] = cut.view_of(result, source, args[source.index])
        for places in together.values():
            for place, one in zip(places, self._of_one_storage(places, results), strict=True):
                made[place] = one
        for place, earlier in self.again.items():
            made[place] = made[earlier]
        return made

    def _of_one_storage(self, places: Sequence[int], results: Sequence[Any]) -> Sequence[Tensor]:
        """The caller's parts of results that share memory, which they still do."""
        cuts: list[Any] = [self.cuts[place] for place in places]
        found: list[Tensor] = [results[place] for place in places]
        if not any(cut.changes for cut in cuts):
            return found
        parts = [cut.part_of(result) for cut, result in zip(cuts, found, strict=True)]
        triples = list(zip(cuts, parts, found, strict=True))
        stay = all(storage_of(part) == storage_of(r) for _, part, r in triples)
        if all(cut.fits(part, r) for cut, part, r in triples) and (stay or len(parts) == 1):
            if self.lent and stay:
                return [_in_place(part, result) for _, part, result in triples]
        elif all(cut.is_of(result) for cut, _, result in triples):
            parts = _laid_out(cuts, parts)
        elif not stay:
            return parts
        if len(parts) == 1:
            return [parts[0].data]  # no view of the padded one
        owning = [self.results[place].owning for place in places]
        return related(parts, owning, parts[0].untyped_storage())


def _in_place(part: Tensor, result: Tensor) -> Tensor:
    """The object that was lent, with the caller's part of its memory."""
    if part is result:
        return result
    return result.as_strided_(part.shape, part.stride(), part.storage_offset())


def _laid_out(cuts: Sequence[Cut], parts: Sequence[Tensor]) -> list[Tensor]:
    """Copies of the parts in one storage, where eager has them."""
    device = parts[0].device
    nbytes = max(cut.end * part.element_size() for cut, part in zip(cuts, parts, strict=True))
    storage = torch.empty(nbytes, dtype=torch.uint8, device=device).untyped_storage()
    made = []
    for cut, part in zip(cuts, parts, strict=True):
        place = torch.empty(0, dtype=part.dtype, device=device).set_(storage, cut.offset, *cut.wanted)
        if overlaps_itself(place):
            index = torch.arange(extent(place), device=device).as_strided(*cut.wanted)
            with_bits_of(part, flat(place)).index_put_((index,), part)
        else:
            with_bits_of(part, place).copy_(part)
        made.append(with_bits_of(part, place))
    return made


def _has(tensor: Tensor, shape: Shape) -> bool:
    """Whether a tensor has these sizes and strides, where they matter."""
    sizes, strides = shape
    return list(tensor.shape) == sizes and all(
        own == wanted or size == 1 for own, wanted, size in zip(tensor.stride(), strides, sizes, strict=True)
    )


def _start(tensor: Tensor) -> Any:
    """The byte of its storage at which a tensor begins."""
    offset = tensor.storage_offset()
    node = getattr(offset, "node", None)
    return tensor.element_size() * (sympy.Integer(offset) if node is None else node.expr)


def leaves_of(gm: torch.fx.GraphModule) -> list[Any]:
    """The example of each result, or the plain value that it is."""
    leaves = tree_leaves(gm.graph.output_node().args[0])
    return [leaf.meta.get("val") if isinstance(leaf, torch.fx.Node) else leaf for leaf in leaves]
