"""How calls with one combination of sizes are padded; worked out once for each, then a call copies, replays, cuts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import SymInt, Tensor
from torch.fx import GraphModule

from air_aclgraph._copies import one_by_one
from air_aclgraph._key import Key, KeyOf
from air_aclgraph._making import Making
from air_aclgraph._memory import overlaps_itself
from air_aclgraph._placed import Placed
from air_aclgraph._results import repeated
from air_aclgraph._slots import Kind
from air_aclgraph.buckets._buffers import PaddedBuffer, Values, evaluated, shape_of
from air_aclgraph.buckets._cuts import Cut, Cuts, PaddedSource, Shape, leaves_of
from air_aclgraph.buckets._proven import Bucket
from air_aclgraph.errors import BucketsRefused
from air_graph import storage_of

_LIMIT: Final = 1024
_PADDED: Final = (Kind.COPIED, Kind.BOUND)


@dataclass(frozen=True)
class Fit:
    """How calls with one combination of sizes are served."""

    key: Key
    replaced: tuple[tuple[int, Any], ...]  # inputs of the padded run that are not the caller's
    places: tuple[int, ...]  # of the inputs that are copied
    copy: Callable[..., object]
    fillings: tuple[tuple[list[Tensor], list[Tensor]], ...]
    cuts: Cuts


class Fits(Placed):
    """The fits of one graph, and the memory of its padded inputs: what its executable is told of buckets."""

    def __init__(self, gm: GraphModule, buckets: Sequence[Bucket], making: Making) -> None:
        self.buckets = tuple(buckets)
        self.buffers: dict[Key, list[PaddedBuffer]] = {}
        self.serving: Key | None = None
        """The key whose padded call is under way."""
        self._making = making
        self._examples = [node.meta.get("val") for node in gm.graph.find_nodes(op="placeholder")]
        self._leaves = leaves_of(gm)
        self._sources = _sources_of(self._examples, making.name)
        self.places = self._padded_inputs()
        self._fits: OrderedDict[tuple[int, ...], Fit | str] = OrderedDict()

    @property
    def known(self) -> int:
        """How many combinations of sizes are padded."""
        return sum(isinstance(fit, Fit) for fit in self._fits.values())

    def _padded_inputs(self) -> tuple[int, ...]:
        """The inputs that are padded, each in the place that a copy of it can take."""
        found = sorted({index for bucket in self.buckets for index in bucket.padded_inputs})
        for index in found:
            slot = self._making.slots[index]
            if slot.kind not in _PADDED:
                raise BucketsRefused(
                    f"input {slot.name!r} has a padded size and is {slot.kind.value}: {slot.because}",
                    advice="declare buckets for inputs that change from call to call",
                )
        return tuple(found)

    def of(self, args: Sequence[Any], key_of: KeyOf) -> Fit | str:
        """How to serve these sizes, or why they are not padded."""
        sizes = tuple(
            args[index] if dim is None else args[index].shape[dim] for index, dim in self._sources.values()
        )
        fit = self._fits.get(sizes)
        if fit is None:
            used = dict(zip(self._sources, sizes, strict=True))
            fit = self._fits[sizes] = self._fitted(used, args, key_of)
            if len(self._fits) > _LIMIT:
                self._fits.popitem(last=False)
            if isinstance(fit, str):
                self._making.history.note(f"sizes {sizes} are not padded: {fit}")
        return fit

    def _fitted(self, used: Values, args: Sequence[Any], key_of: KeyOf) -> Fit | str:
        padded = self._padded_sizes(used)
        if isinstance(padded, str):
            return padded
        try:
            cuts = [self._cut(place, example, padded, used) for place, example in enumerate(self._leaves)]
        except TypeError:  # of a symbol that is none of the inputs' sizes
            return "the layout of a result does not follow from the sizes of the inputs"
        wanted = [shape_of(self._examples[i], padded) for i in self.places]
        for index, shape in zip(self.places, wanted, strict=True):
            if overlaps_itself(torch.empty_strided(*shape, device="meta")):
                name = self._making.slots[index].name
                return (
                    f"input {name!r} is a part of a larger tensor, between whose rows is no room for padding"
                )
        buffers = self._buffers_of(wanted)
        replaced: list[tuple[int, Any]] = [(buffer.index, buffer.tensor) for buffer in buffers]
        replaced += [
            (i, evaluated(example, padded))
            for i, example in enumerate(self._examples)
            if isinstance(example, SymInt)
        ]
        whole = list(args)
        for index, value in replaced:
            whole[index] = value
        key = key_of(whole)
        self.buffers[key] = buffers
        return Fit(
            key,
            tuple(replaced),
            tuple(buffer.index for buffer in buffers),
            (self._making.copies or one_by_one)([buffer.callers_part(used) for buffer in buffers]),
            tuple(_fillings(buffers, used)),
            self._cuts(cuts, buffers),
        )

    def _padded_sizes(self, used: Values) -> Values | str:
        """The value of each symbol in the padded run, or why there is none."""
        padded = dict(used)
        for bucket in self.buckets:
            found = {used[symbol] for symbol in bucket.symbols}
            if len(found) > 1:
                return f"sizes that are padded together differ: {sorted(found)}"
            size = bucket.up(found.pop())
            if size is None:
                return f"no bucket of {list(bucket.sizes)} holds it"
            padded.update(dict.fromkeys(bucket.symbols, size))
        broken = _broken_guard(self._examples, padded)
        if broken is not None:
            return f"the graph was traced under the condition {broken}, which the bucket does not meet"
        return padded

    def _buffers_of(self, wanted: Sequence[Shape]) -> list[PaddedBuffer]:
        """The memory of the padded inputs, with these sizes and strides."""
        for buffers in self.buffers.values():
            if [(list(buffer.tensor.shape), list(buffer.tensor.stride())) for buffer in buffers] == wanted:
                return buffers
        return [self._buffer(i, *shape) for i, shape in zip(self.places, wanted, strict=True)]

    def _buffer(self, index: int, sizes: list[int], strides: list[int]) -> PaddedBuffer:
        device, dtype = self._making.runtime.device, self._examples[index].dtype
        memory = torch.empty_strided(sizes, strides, dtype=dtype, device=device)
        labels = [(bucket, bucket.proof.inputs[index]) for bucket in self.buckets]
        return PaddedBuffer(index, memory, tuple((b, each) for b, each in labels if each is not None))

    def _cuts(self, cuts: Sequence[Cut | int | None], buffers: Sequence[PaddedBuffer]) -> Cuts:
        sources = {
            storage_of(buffer.tensor): PaddedSource(buffer.index, self._examples[buffer.index], buffer.tensor)
            for buffer in buffers
        }
        lent = self._making.options.outputs == "guarded"
        results = self._making.results
        return Cuts(tuple(cuts), self._making.given, results, repeated(results), sources, lent)

    def _cut(self, place: int, example: Any, padded: Values, used: Values) -> Cut | int | None:
        if isinstance(example, Tensor):
            labels = [(bucket, bucket.proof.results[place]) for bucket in self.buckets]
            known = [(bucket, each) for bucket, each in labels if each is not None]
            return Cut.of(example, known, padded, used)
        is_size = not isinstance(example, (int, float, bool, str, type(None)))
        return evaluated(example, used) if is_size else None

    def stays(self, key: Key) -> Sequence[int]:
        """The inputs of a bucket's capture lie where they were put."""
        return self.places if key in self.buffers else ()

    def dropped(self, key: Key) -> None:
        """Gives back the memory of a bucket's inputs."""
        if key == self.serving:
            return  # to be captured again, from the same memory
        if self.buffers.pop(key, None) is not None:
            for sizes in [s for s, fit in self._fits.items() if isinstance(fit, Fit) and fit.key == key]:
                del self._fits[sizes]

    @property
    def nbytes(self) -> int:
        """Bytes of the memory of padded inputs."""
        storages = (
            buffer.tensor.untyped_storage() for buffers in self.buffers.values() for buffer in buffers
        )
        return sum({storage._cdata: storage.nbytes() for storage in storages}.values())

    def explain(self) -> list[dict[str, Any]]:
        """Each bucket: its sizes, the symbols that have them, and the inputs that are padded."""
        return [
            {
                "sizes": list(bucket.sizes),
                "symbols": [str(symbol) for symbol in bucket.symbols],
                "inputs": [self._making.slots[index].name for index in bucket.padded_inputs],
            }
            for bucket in self.buckets
        ]


def _fillings(buffers: Sequence[PaddedBuffer], used: Values) -> list[tuple[list[Tensor], list[Tensor]]]:
    """Paddings and what fills them, of all inputs together: one list for each turn."""
    rounds = [buffer.fillings(used) for buffer in buffers]
    found = []
    for turn in range(max(map(len, rounds), default=0)):
        pairs = [filling[turn] for filling in rounds if turn < len(filling)]
        found.append(([padding for padding, _ in pairs], [first for _, first in pairs]))
    return found


def _sources_of(examples: Sequence[Any], name: str) -> dict[Any, tuple[int, int | None]]:
    """Symbol -> the input, and its dimension, that gives its value."""
    found: dict[Any, tuple[int, int | None]] = {}
    wanted: set[Any] = set()
    for index, example in enumerate(examples):
        sizes = example.shape if isinstance(example, Tensor) else [example]
        for dim, size in enumerate(sizes):
            if isinstance(size, SymInt):
                wanted |= size.node.expr.free_symbols
                if size.node.expr.is_Symbol:
                    found.setdefault(size.node.expr, (index, dim if isinstance(example, Tensor) else None))
    if wanted - set(found):
        raise BucketsRefused(
            f"no input of {name} tells the value of {sorted(map(str, wanted - set(found)))[0]}",
            advice="declare no buckets for this graph",
        )
    return found


def _broken_guard(examples: Sequence[Any], values: Values) -> str | None:
    """A condition on sizes that the graph was traced under, and that these sizes do not meet."""
    sizes = (
        s for e in examples for s in (e.shape if isinstance(e, Tensor) else [e]) if isinstance(s, SymInt)
    )
    environment = next((size.node.shape_env for size in sizes), None)
    if environment is None:
        return None
    for symbol, value in values.items():
        bounds = environment.var_to_range.get(symbol)
        if bounds is not None and not (bounds.lower <= value <= bounds.upper):
            return f"{bounds.lower} <= {symbol} <= {bounds.upper}"
    for guard in environment.guards:
        if environment.replace(guard.expr).xreplace(values) == False:  # noqa: E712  # sympy's false is no bool
            return str(guard.expr)
    return None
