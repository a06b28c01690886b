"""A graph that writes to an argument holds for arguments that share memory as they did when it was traced.

AOTAutograd makes one base of arguments that overlap in the example, and takes all others for separate ones. Dynamo
guards neither, so a call whose views of one tensor lie otherwise would get the numbers of another program, without a
word. Here each call of such a graph is compared with the trace:

    step(cache[0], cache[1])     # traced: apart
    step(cache[0], cache[0:2])   # overlaps: the graph of Dynamo runs, eagerly, with one warning

What was found to fit is remembered by address: a call costs one address for each tensor that counts, and one test of
all parameters and buffers, which seldom move. Of arguments that overlap in the trace what they view is looked at again:
another tensor may begin at the same address.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule

import air_aclgraph
from air_backend._arguments import Arguments
from air_backend._hidden_writes import written_in_hiding
from air_backend._result_places import ResultPlace, places_of
from air_backend.errors import SharingRefused
from air_graph import Stretch, Stretches, by_storage, hint_of, turned_inputs

#: Addresses of one argument that are remembered as clear of what is written.
REMEMBERED: Final = 4096
_PLAIN: Final = (Tensor, nn.Parameter)
_OF_INPUTS: Final = (OutputType.alias_of_input, OutputType.is_input)
VIEWS_OF_BASE: Final = (
    "these overlap, and a result is a view of one, which torch would make of the tensor they belong to"
)
NOT_AS_TRACED: Final = "these overlap otherwise than the graph was traced for"
TURNED: Final = (
    "it gives it other sizes or strides, and torch would lose where it begins and what lies between"
)
HIDDEN: Final = "these overlap, and an operator writes one that its schema says it reads"
PLACE_UNKNOWN: Final = "a result is a view of one, and where it begins depends on data"
_UNKNOWN: Final = -1
"""Stands for a size that only a call knows."""


class Group(NamedTuple):
    """Arguments in one piece of memory of which some overlap: their places, where each begins, and what they view."""

    places: tuple[int, ...]
    begins: tuple[int, ...]
    base: tuple[object, ...]


@dataclass(frozen=True)
class Traced:
    """How the arguments of the example share memory; it goes into files beside the graph."""

    count: int = 0
    """All arguments."""
    tensors: tuple[int, ...] = ()
    """Those that are tensors with memory of their own."""
    groups: tuple[Group, ...] = ()
    open: frozenset[int] = frozenset()
    """Those whose sizes differ between calls."""
    repeating: tuple[int, ...] = ()
    """Those that have several elements in one place: they were expanded."""

    @property
    def overlapping(self) -> tuple[int, ...]:
        """The arguments in one piece of memory with others, and those that overlap themselves."""
        return tuple(sorted({*self.repeating, *(place for group in self.groups for place in group.places)}))

    @classmethod
    def of(cls, gm: GraphModule, examples: Sequence[Any]) -> Traced:
        """As the values say that Dynamo traced with, or else the example."""
        places = gm.graph.find_nodes(op="placeholder")
        values = [node.meta.get("example_value", one) for node, one in zip(places, examples, strict=False)]
        return cls.by(values)

    @classmethod
    def by(cls, examples: Sequence[Any]) -> Traced:
        """As these arguments do."""
        tensors = [(place, one) for place, one in enumerate(examples) if _is_plain(one)]
        together = by_storage(one if _is_plain(one) else None for one in examples)
        pieces = ([stretch_of(examples[place], place) for place in group] for group in together)
        open_sizes = frozenset(place for place, one in tensors if _has_open_sizes(one))
        places = tuple(place for place, _ in tensors)
        groups = tuple(_groups(pieces, examples))
        repeating = tuple(place for place, one in tensors if _repeats(one))
        return cls(len(examples), places, groups, open_sizes, repeating)


@dataclass(frozen=True)
class Written:
    """Which inputs of the traced graph are written, and which keep their address; not known of every graph."""

    known: bool = False
    inputs: tuple[bool, ...] = ()
    static: frozenset[int] = frozenset()
    views: tuple[tuple[int, int], ...] = ()
    """The results that are views of inputs, or inputs, each with its input."""

    @classmethod
    def now(cls) -> Written:
        """As the compilation in progress says."""
        context = TracingContext.try_get()
        metadata = None if context is None else context.fw_metadata
        if metadata is None:
            return cls()
        static = frozenset(metadata.static_input_indices or ())
        views = tuple(
            (at, one.base_idx)
            for at, one in enumerate(metadata.output_info)
            if one.output_type in _OF_INPUTS and one.base_idx is not None
        )
        return cls(True, tuple(one.mutates_data for one in metadata.input_info), static, views)

    def with_hidden(self, places: frozenset[int], count: int) -> Written:
        """With writes to some of `count` arguments that AOTAutograd knows nothing of."""
        if places and len(self.inputs) != count:
            return replace(self, known=False)
        return replace(self, inputs=tuple(one or at in places for at, one in enumerate(self.inputs)))


@dataclass
class Sharing:
    """What one compilation knows of the memory of its arguments."""

    traced: Traced = field(default_factory=Traced)
    arguments: Arguments = field(default_factory=Arguments)
    places: tuple[ResultPlace, ...] = ()
    """Where results lie that may be views of arguments with open sizes."""
    written: Written = field(default_factory=Written)
    hidden: frozenset[int] = frozenset()
    """Arguments that operators write whose schemas do not say so."""

    @classmethod
    def of(cls, gm: GraphModule, examples: Sequence[Any]) -> Sharing:
        """As a graph of Dynamo says."""
        traced, hidden = Traced.of(gm, examples), written_in_hiding(gm)
        return cls(traced, Arguments.of(gm), places_of(gm), hidden=hidden)

    def check(self, gm: GraphModule) -> None:
        """Raises for arguments that the graph turns in place: torch gives them the layout of a result of the graph.

        Graphs of Dynamo do not; it ends a graph there.
        """
        found = turned_inputs(gm)
        places = gm.graph.find_nodes(op="placeholder")
        if turned := [at for at, node in enumerate(places) if node in found]:
            raise self.refusal(turned, TURNED)

    @property
    def placed(self) -> tuple[ResultPlace, ...]:
        """Where results lie that are views of written arguments."""
        if len(self.written.inputs) != self.traced.count:
            return ()
        views = {(at, place) for at, place in self.written.views if self.written.inputs[place]}
        return tuple(one for one in self.places if (one.result, one.argument) in views)

    def learn(self, written: Written) -> None:
        """Notes what is known once AOTAutograd has traced the graph; raises where torch would get its results wrong."""
        self.written = written.with_hidden(self.hidden, self.traced.count)
        if written.views and self.traced.groups and len(written.inputs) != self.traced.count:
            raise self.refusal(self.traced.overlapping, VIEWS_OF_BASE)
        if self.hidden.intersection(place for group in self.traced.groups for place in group.places):
            raise self.refusal(self.traced.overlapping, HIDDEN)
        if unknown := [one.argument for one in self.placed if one.source is None]:
            raise self.refusal(unknown, PLACE_UNKNOWN)

    def refusal(self, places: Sequence[int], reason: str) -> SharingRefused:
        """The error that names some arguments, and a line that uses one."""
        return SharingRefused(self.arguments.named(places), reason, self.arguments.line(places))


def stretch_of(value: Tensor, place: int) -> Stretch:
    """The memory of a value that has none, in bytes of its storage."""
    start = _hint(value.storage_offset()) * value.element_size()
    return Stretch(start, start + _extent(value), place)


def _here(value: Tensor, place: int) -> Stretch:
    """The memory of an argument of a call."""
    start = value.data_ptr()
    return Stretch(start, start + _extent(value), place)


def _extent(value: Tensor) -> int:
    """Bytes from the first element to the last."""
    sizes = [_hint(size) for size in value.shape]
    if 0 in sizes:
        return 0
    steps = zip(sizes, value.stride(), strict=True)
    return (1 + sum((size - 1) * _hint(stride) for size, stride in steps)) * value.element_size()


def _hint(size: int | torch.SymInt) -> int:
    if isinstance(size, int):
        return size
    hint = hint_of(size)
    return _UNKNOWN if hint is None else hint


def _has_open_sizes(value: Tensor) -> bool:
    numbers = (*value.shape, *value.stride(), value.storage_offset())
    return any(isinstance(number, torch.SymInt) for number in numbers)


def _repeats(value: Tensor) -> bool:
    """Whether a tensor was expanded; what is open is none where it is not known."""
    return any(
        _hint(stride) == 0 and _hint(size) > 1
        for size, stride in zip(value.shape, value.stride(), strict=True)
    )


def _is_plain(value: object) -> bool:
    """Whether a value is a tensor with memory of its own, and no class made of others."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        return False
    return type(value) in _PLAIN or isinstance(value, FakeTensor)


def _groups(by_storage: Iterable[list[Stretch]], args: Sequence[Any]) -> Iterator[Group]:
    """Those of some pieces of memory whose parts overlap."""
    for pieces in by_storage:
        if len(pieces) > 1 and _some_overlap(pieces):
            yield _group(tuple(piece.input for piece in pieces), args)


def _group(places: tuple[int, ...], args: Sequence[Any]) -> Group:
    """Arguments that are known to overlap."""
    tensors = [args[place] for place in places]
    return Group(places, tuple(_hint(one.storage_offset()) for one in tensors), _base(tensors))


def _some_overlap(pieces: Iterable[Stretch]) -> bool:
    used = sorted(piece for piece in pieces if piece.end > piece.start)
    return any(one.end > other.start for one, other in pairwise(used))


def _base(tensors: Sequence[Tensor]) -> tuple[object, ...]:
    """What torch gives the graph in the place of the arguments: the tensor that they view, or the whole storage."""
    for one in tensors:
        if (base := one._base) is not None:
            numbers = (*base.shape, *base.stride(), base.storage_offset())
            return (str(base.dtype), *map(_hint, numbers))
    is_open = any(map(_has_open_sizes, tensors))
    return (str(tensors[0].dtype), _UNKNOWN if is_open else _elements_of_storage(tensors[0]))


def _elements_of_storage(value: Tensor) -> int:
    """As torch counts them when it makes a base; while it traces, of what it has seen of the storage."""
    mode = value.fake_mode if isinstance(value, FakeTensor) else contextlib.nullcontext()
    with mode:
        whole = torch.empty(0, dtype=value.dtype, device=value.device).set_(value.untyped_storage())
    return _hint(whole.numel())


def _shared(args: Sequence[Any], places: Iterable[int]) -> tuple[Group, ...]:
    """How the arguments of a call share memory."""
    by_memory: list[list[Stretch]] = []
    end = -1
    storages = [(args[place].untyped_storage(), place) for place in places]
    for start, nbytes, place in sorted(
        (s.data_ptr(), s.nbytes(), place) for s, place in storages if s.nbytes()
    ):
        if start >= end:
            by_memory.append([])
        by_memory[-1].append(_here(args[place], place))
        end = max(end, start + nbytes)
    found = (sorted(pieces, key=lambda piece: piece.input) for pieces in by_memory)
    return tuple(sorted(_groups(found, args)))


@dataclass
class _Cleared:
    """Addresses that were found to fit: where what counts lies, and for each other argument, where it may."""

    where: Sequence[Any]
    core: Stretches
    others: tuple[tuple[int, set[int]], ...]


class Fitting:
    """Whether the arguments of a call share memory as those of the example did."""

    def __init__(self, traced: Traced, written: Written) -> None:
        tensors, inputs = traced.tensors, written.inputs
        exact = written.known and not traced.groups and len(inputs) == traced.count
        some = not written.known or any(inputs)
        static = written.static if exact else frozenset[int]()
        self._written = frozenset(place for place in tensors if some and (not exact or inputs[place]))
        self._groups = tuple(sorted(group for group in traced.groups if self._counts(group)))
        core = self._written.union(*(group.places for group in self._groups))
        self._core = [place for place in tensors if place in core]
        self._moving = [place for place in self._core if place not in static]
        self._others = [place for place in tensors if place not in core and place not in static]
        self._static = [place for place in tensors if place in static]
        self._staying = [place for place in self._static if place not in core]
        self._stay = Stretches(())
        """Where what is only read and stays lies."""
        self._stays: Callable[..., bool] | None = None
        """Whether all that stays still does."""
        self._open = traced.open
        self._fixed = traced.open.isdisjoint(self._moving)
        self._state = _Cleared((), Stretches(()), ())
        self.needed = bool(self._core and len(tensors) > 1)
        """Whether two arguments can share memory otherwise at all."""

    def _counts(self, group: Group) -> bool:
        return not self._written.isdisjoint(group.places)

    def __call__(self, args: Sequence[Any]) -> bool:
        """Whether they do."""
        if self._static and not (self._stays and self._stays(*args)):
            self._settle(args)
        state = self._state
        where: list[Any] = [args[place].data_ptr() for place in self._moving]
        if not self._fixed:
            where.extend((args[place].shape, args[place].stride()) for place in self._moving)
        where.extend(_group(group.places, args) for group in self._groups)
        if where != state.where:
            if self._sharing(args) != self._groups:
                return False
            core = Stretches(_here(args[place], place) for place in self._core)
            state = self._state = _Cleared(where, core, tuple((place, set()) for place in self._others))
        for place, seen in state.others:
            if args[place].data_ptr() not in seen and not self._is_clear(args, place, state, seen):
                return False
        return True

    def _settle(self, args: Sequence[Any]) -> None:
        """Learns where what stays lies now, and forgets what was found to fit."""
        self._stays = air_aclgraph.address_test(self._static, [args[place] for place in self._static])
        self._stay = Stretches(_here(args[place], place) for place in self._staying)
        self._state = _Cleared((), Stretches(()), ())

    def difference(self, args: Sequence[Any]) -> tuple[int, ...]:
        """The arguments that share memory otherwise than they did."""
        changed = set(self._sharing(args)).symmetric_difference(self._groups)
        return tuple(sorted({place for group in changed for place in group.places}))

    def _sharing(self, args: Sequence[Any]) -> tuple[Group, ...]:
        places = [*self._core, *self._others]
        if self._staying and any(self._stay.meet(_here(args[place], place)) for place in self._core):
            places.extend(self._staying)
        return tuple(group for group in _shared(args, places) if self._counts(group))

    def _is_clear(self, args: Sequence[Any], place: int, state: _Cleared, seen: set[int]) -> bool:
        own = _here(args[place], place)
        if state.core.meet(own) and self._sharing(args) != self._groups:
            return False
        if place not in self._open:  # where sizes differ, an address says nothing
            if len(seen) >= REMEMBERED:
                seen.clear()
            seen.add(own.start)
        return True
