"""Turns what a replay wrote into what the caller gets.

An output of the graph is one of five things: an input handed back, a view of an input (made again on the
caller's own tensor, so that it keeps aliasing that), a constant, an earlier output once more (the same object), or
memory of the capture.  Only the last is touched by the output mode:

    kept      a copy, or the memory itself where callers let go of it before the next replay (`_kept`)
    view      the memory itself: the next replay writes it again
    clone     a copy; outputs that share memory share it in the copy as well
    guarded   the memory itself, and an error when a value is used after a later replay overwrote it
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from air_aclgraph._memory import extent, overlaps_itself, used_of
from air_aclgraph._results import Result, repeated
from air_aclgraph.errors import StaleOutput
from air_graph import Ownership, by_storage, placed, storage_of

Finish = Callable[[Sequence[Any]], tuple[Any, ...]]

# Pairs of these are complex numbers for torch; any other type becomes complex as its bytes do.
_PAIRS: Final = {
    torch.float16: torch.complex32,
    torch.float32: torch.complex64,
    torch.float64: torch.complex128,
}


@dataclass(frozen=True)
class SameInput:
    """The output is input `index` itself."""

    index: int


@dataclass(frozen=True)
class InputView:
    """The output is a view of input `index`."""

    index: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    is_conj: bool = False
    is_neg: bool = False

    def of(self, base: Tensor) -> Tensor:
        """The same view of another base.

        AOTAutograd makes it again: of complex numbers by what it knows of the base, if it is none here, and by autograd
        of their parts, from which it could not.
        """
        start = base.storage_offset() * base.element_size() // self.dtype.itemsize
        if base.dtype == self.dtype:
            return self._at(start, base)
        view = self._at(start, self._typed(base))
        return view if self.dtype.is_complex else view.detach()

    def _at(self, start: int, base: Tensor) -> Tensor:
        view = base.as_strided(self.shape, self.stride, start + self.offset)
        if self.is_conj or self.is_neg or self.dtype.is_complex:
            view = view if view.is_conj() == self.is_conj else view.conj()
            view = view if view.is_neg() == self.is_neg else torch._neg_view(view)
        return view

    def _typed(self, base: Tensor) -> Tensor:
        """All of the base's storage in another type; parts of complex numbers lie side by side."""
        width = max(base.element_size(), self.dtype.itemsize)
        count = base.untyped_storage().nbytes() // width * width // base.element_size()
        everything = base.as_strided((count,), (1,), 0)
        if base.is_complex() and not self.dtype.is_complex:
            plain = everything.conj() if base.is_conj() else everything
            return torch.view_as_real(plain).view(-1).view(self.dtype)
        if _PAIRS.get(base.dtype) == self.dtype:
            return torch.view_as_complex(everything.view(-1, 2))
        return everything.view(self.dtype)


@dataclass(frozen=True)
class OwnMemory:
    """The output is memory of the capture."""

    tensor: Tensor
    result: Result


@dataclass(frozen=True)
class Constant:
    """The output is the same object in every call."""

    value: object


@dataclass(frozen=True)
class Repeated:
    """The output is output `place` once more, the same object."""

    place: int


Output = SameInput | InputView | OwnMemory | Constant | Repeated


def describe(
    outputs: Sequence[Any],
    given: Sequence[int | None],
    inputs: Sequence[Any],
    results: Sequence[Result],
) -> tuple[Output, ...]:
    """Says of each output what it is; `given` holds the input index of outputs that are placeholders.

    An operator that writes in place returns the very input.
    """
    same = {id(t): i for i, t in enumerate(inputs) if isinstance(t, Tensor)}
    storages = {storage_of(t): i for i, t in enumerate(inputs) if isinstance(t, Tensor)}
    found: list[Output] = []
    again = repeated(results)
    for place, (value, index, result) in enumerate(zip(outputs, given, results, strict=True)):
        if index is None:
            index = same.get(id(value))
        if index is not None:
            found.append(SameInput(index))
        elif place in again:
            found.append(Repeated(again[place]))
        elif not isinstance(value, Tensor):
            found.append(Constant(value))
        elif storage_of(value) in storages:
            found.append(_view(value, storages[storage_of(value)], inputs))
        else:
            found.append(OwnMemory(value, result))
    return tuple(found)


def _view(value: Tensor, index: int, inputs: Sequence[Any]) -> InputView:
    base = inputs[index]
    start = base.storage_offset() * base.element_size() // value.element_size()
    return InputView(
        index,
        tuple(value.shape),
        tuple(value.stride()),
        value.storage_offset() - start,
        value.dtype,
        value.is_conj(),
        value.is_neg(),
    )


def finisher(
    outputs: Sequence[Output],
    mode: str,
    guarded: GuardedOutputs,
    seen: Callable[[Sequence[Tensor]], None] | None = None,
) -> Finish:
    """The function from the arguments of a call to its outputs; `seen` is shown the copies among them."""
    own = [output for output in outputs if isinstance(output, OwnMemory)]
    if mode in ("clone", "kept"):
        clone = cloner([output.tensor for output in own], [output.result.owning for output in own])
        if seen is not None:
            clone = _shown(clone, seen)
        return mixed(outputs, clone) if len(own) < len(outputs) else lambda args: tuple(clone())
    if mode == "guarded":
        return mixed(outputs, lambda: guarded.lend(own))
    fixed = fixed_outputs(outputs)
    if fixed is not None:
        return lambda args: fixed
    tensors = [output.tensor for output in own]
    return mixed(outputs, lambda: tensors)


def _shown(
    clone: Callable[[], list[Tensor]], seen: Callable[[Sequence[Tensor]], None]
) -> Callable[[], list[Tensor]]:
    def shown() -> list[Tensor]:
        copies = clone()
        seen(copies)
        return copies

    return shown


def fixed_outputs(outputs: Sequence[Output]) -> tuple[Any, ...] | None:
    """The outputs without a copy, where they are the same objects in every call."""
    made: list[Any] = []
    for output in outputs:
        if isinstance(output, (SameInput, InputView)):
            return None
        if isinstance(output, Repeated):
            made.append(made[output.place])
        else:
            made.append(output.tensor if isinstance(output, OwnMemory) else output.value)
    return tuple(made)


def mixed(outputs: Sequence[Output], own: Callable[[], Sequence[Tensor]]) -> Finish:
    """The function from the arguments of a call to its outputs; `own` gives those that are the capture's own."""
    makers = [_maker(output) for output in outputs]
    again = [(place, output.place) for place, output in enumerate(outputs) if isinstance(output, Repeated)]

    def finish(args: Sequence[Any]) -> tuple[Any, ...]:
        rest = iter(own())
        return tuple(maker(args, rest) for maker in makers)

    def finish_with_repeats(args: Sequence[Any]) -> tuple[Any, ...]:
        made = list(finish(args))
        for place, first in again:
            made[place] = made[first]
        return tuple(made)

    return finish_with_repeats if again else finish


def _maker(output: Output) -> Callable[[Sequence[Any], Iterator[Tensor]], Any]:
    """How one output is made from the arguments, or taken from the capture's own."""
    if isinstance(output, OwnMemory):
        return lambda args, rest: next(rest)
    if isinstance(output, SameInput):
        index = output.index
        return lambda args, rest: args[index]
    if isinstance(output, InputView):
        view = output
        return lambda args, rest: view.of(args[view.index])
    value = None if isinstance(output, Repeated) else output.value
    return lambda args, rest: value


def cloner(tensors: Sequence[Tensor], owning: Sequence[Ownership]) -> Callable[[], list[Tensor]]:
    """Copies all tensors; those that share a storage share one in the copy.

    What is no view in eager is none here: autograd forbids some writes to views, and takes a view of a differentiable
    tensor for one.  The others are views of what they are views of in eager: the next graph wants to know that.
    """
    together = [
        group for group in by_storage(tensors) if len(group) > 1 or not clones_alike(tensors[group[0]])
    ]
    if not together:
        return lambda: [tensor.clone() for tensor in tensors]
    alone = sorted(set(range(len(tensors))).difference(*together))

    def clone() -> list[Tensor]:
        made: list[Tensor | None] = [None] * len(tensors)
        for index in alone:
            made[index] = tensors[index].clone()
        for group in together:
            copies = _clone_together([tensors[i] for i in group], [owning[i] for i in group])
            for index, copied in zip(group, copies, strict=True):
                made[index] = copied
        return [tensor for tensor in made if tensor is not None]

    return clone


def clones_alike(tensor: Tensor) -> bool:
    """Whether `clone` keeps the strides, the storage offset, and the conjugate and negative bits."""
    if tensor.storage_offset() or tensor.is_conj() or tensor.is_neg():
        return False
    return extent(tensor) == tensor.numel() and not overlaps_itself(tensor)


def _clone_together(tensors: Sequence[Tensor], owning: Sequence[Ownership]) -> list[Tensor]:
    """Copies the stretch of memory that the tensors cover to where it lies in a storage like theirs."""
    source = tensors[0].untyped_storage()
    low, high = used_of(tensors)
    empty = torch.empty(0, dtype=torch.uint8, device=tensors[0].device)
    bytes_copied = torch.empty(source.nbytes(), dtype=torch.uint8, device=tensors[0].device)
    bytes_copied[low:high].copy_(empty.set_(source, low, (high - low,), (1,)))
    return related(tensors, owning, bytes_copied.untyped_storage())


def related(
    tensors: Sequence[Tensor], owning: Sequence[Ownership], storage: torch.UntypedStorage
) -> list[Tensor]:
    """The places of some tensors in a storage, as views of each other where they are in eager, and only there.

    All count their versions together, as in eager: autograd refuses a value that it saved when another one of that
    memory was written.
    """
    first = next((at for at, each in enumerate(owning) if each.owns), 0)
    root = placed(tensors[first], storage, int(tensors[first].storage_offset()))
    made = {
        each.place: root if at == first and _is_plain(tensor) else _beside(root, tensor)
        for at, (tensor, each) in enumerate(zip(tensors, owning, strict=True))
    }
    for base, views in _views_of(tensors, owning).items():
        above = made.get(base)
        if above is None:
            below = _base_of([tensor for _, tensor in views])
            above = None if below is None else _beside(root, below)
        for place, tensor in views:
            if above is not None and _lies_plainly_in(tensor, above):
                made[place] = above.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return [made[each.place] for each in owning]


def _beside(root: Tensor, tensor: Tensor) -> Tensor:
    """The place of a tensor in the storage of `root`, no view of that for autograd, but of one count of versions.

    `root` has neither bit: what lies beside it has its own.
    """
    return _view(tensor, 0, [root]).of(root).detach()


def _views_of(tensors: Sequence[Tensor], owning: Sequence[Ownership]) -> dict[int, list[tuple[int, Tensor]]]:
    """The places and tensors that are views of one tensor, by the number of that."""
    found: dict[int, list[tuple[int, Tensor]]] = {}
    for tensor, each in zip(tensors, owning, strict=True):
        if each.is_view:
            found.setdefault(each.base, []).append((each.place, tensor))
    return found


def _lies_plainly_in(tensor: Tensor, base: Tensor) -> bool:
    return tensor.dtype == base.dtype and _is_plain(tensor) and _is_plain(base)


def _is_plain(tensor: Tensor) -> bool:
    """Whether torch has nothing to conjugate or to negate."""
    return not tensor.is_conj() and not tensor.is_neg()


def _base_of(tensors: Sequence[Tensor]) -> Tensor | None:
    """The one tensor that several tensors are, or are views of."""
    bases = {id(b): b for b in (t if t._base is None else t._base for t in tensors)}
    return next(iter(bases.values())) if len(bases) == 1 < len(tensors) else None


_HARMLESS: Final = frozenset(
    getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device", "layout", "requires_grad", "ndim")
) | {Tensor.dim, Tensor.size, Tensor.numel, Tensor.stride, Tensor.element_size, Tensor.is_contiguous}


class _Stale(Tensor):
    """What a guarded output becomes when its memory is overwritten: any use of the value raises."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _HARMLESS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        stale = next(t for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, _Stale))
        raise copy.copy(stale.__dict__["_air_error"])

    def __repr__(self) -> str:  # type: ignore[override]  # the value is gone, there is nothing to format
        return f"<overwritten output {self.__dict__['_air_error'].output!r}>"


class GuardedOutputs:
    """The guarded outputs of one graph that callers may still hold."""

    def __init__(self, graph: str) -> None:
        self.graph = graph
        self.calls = 0
        self._lent: list[tuple[weakref.ref[Tensor], OwnMemory, int, int]] = []

    def lend(self, outputs: Sequence[OwnMemory]) -> list[Tensor]:
        """Fresh tensors over the memory of the outputs, remembered until they are overwritten."""
        lent = [output.tensor.view_as(output.tensor) for output in outputs]
        for tensor, output in zip(lent, outputs, strict=True):
            storage = storage_of(output.tensor)
            self._lent.append((weakref.ref(tensor), output, self.calls, storage))
        return lent

    def overwrite(self, storages: frozenset[int]) -> None:
        """Called before a replay that writes these storages: their lent tensors become stale."""
        self.calls += 1
        if not self._lent:
            return
        kept = []
        for reference, output, call, storage in self._lent:
            tensor = reference()
            if tensor is None:
                continue
            if storage in storages:
                tensor.__class__ = _Stale
                tensor.__dict__["_air_error"] = self._error(output.result, call)
            else:
                kept.append((reference, output, call, storage))
        self._lent = kept

    def _error(self, result: Result, call: int) -> StaleOutput:
        return StaleOutput(
            f"output {result.name!r} of call {call} of {self.graph} was overwritten by call {self.calls}",
            where=result.where,
            advice="clone the value before the next call, or compile with outputs='clone'",
            output=result.name,
            produced=call,
            overwritten=self.calls,
        )
