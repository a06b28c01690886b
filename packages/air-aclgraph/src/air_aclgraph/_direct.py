"""The way of a call past AOTAutograd's runtime wrapper, where that wrapper does nothing.

Dynamo calls what AOTAutograd returned: a function that puts the arguments into a list, switches autocast and
gradients off, calls the compiled graph, makes a list of its outputs, writes back inputs and rebuilds aliases.
For most inference graphs there is nothing to write back and nothing to rebuild, and then the graph's executor can
be called by Dynamo itself:

    direct_call = DirectCall()
    compiled = aot_autograd(inference_compiler=..., ...)(gm, example_inputs)   # inside: direct_call.enter(executable)
    return direct_call.around(compiled)

That the wrapper does nothing is decided twice.  What it does besides passing values on is known from
AOTAutograd's metadata: dynamic outputs, a changed gradient mode; and the version counters of inputs that the
graph writes, which are moved here as well.  What it does to the values is seen in the first call, which goes
through it: the executor must have been given the very arguments of the call, and the call must have returned
the executor's very outputs.  Both follow from the metadata, which does not change after compilation, so one
call shows it for all.  Otherwise the wrapper stays.
"""

from __future__ import annotations

import ctypes
import operator
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import torch
from torch._guards import TracingContext
from torch.autograd import forward_ad

from air_aclgraph import native
from air_aclgraph._modes import has_function_modes, outside_modes, without_function_modes, without_modes
from air_aclgraph._replayer import Replayer
from air_graph.executors import boxed
from air_graph.forks import new_lock


class Boxed(Protocol):
    """An executor of one graph."""

    @property
    def name(self) -> str: ...

    def boxed(self, args: Sequence[Any]) -> Sequence[Any]:
        """Runs the graph on its inputs."""


#: What the wrapper does besides passing values on: name in AOTAutograd's metadata, and its value when it does not.
_SIDE_EFFECTS: Final[dict[str, tuple[object, ...]]] = {
    "dynamic_outputs": (False,),
    "grad_enabled_mutation": (None,),
}

#: The inputs whose version counters the wrapper moves.
_VERSIONS: Final = "mutated_graph_handled_indices_seen_by_autograd"

#: The name in `forward_ad` of the innermost level of forward-mode AD; -1 outside all.
_LEVEL: Final = "_current_level"

_UNKNOWN: Final = object()


@dataclass(frozen=True, slots=True)
class WitnessedCall:
    """A call of a graph whose executor Dynamo calls itself."""

    executor: Boxed
    args: tuple[Any, ...]
    outputs: Any


@dataclass(frozen=True, slots=True)
class Wrapped:
    """What AOTAutograd's wrapper around one graph does besides passing values on; kept where a graph is kept."""

    plain: bool = False
    """Whether it does nothing but move version counters."""
    written: tuple[int, ...] = ()
    """The inputs whose version counters it moves."""

    @classmethod
    def now(cls) -> Wrapped:
        """As the compilation in progress says; careful where there is none."""
        context = TracingContext.try_get()
        metadata = None if context is None else context.fw_metadata
        return cls(without_side_effects(metadata), tuple(getattr(metadata, _VERSIONS, ())))


_direct_calls: Final[weakref.WeakSet[DirectCall]] = weakref.WeakSet()


class _Witness(threading.local):
    """What one thread writes down; `seen` is None while it does not."""

    seen: list[WitnessedCall] | None = None


_witness: Final = _Witness()
_deciding: Final = new_lock()
_witnesses = 0


@contextmanager
def witnessed() -> Iterator[list[WitnessedCall]]:
    """Writes down the calls this thread makes inside; only graphs without AOTAutograd's wrapper are seen."""
    global _witnesses
    outer, _witness.seen = _witness.seen, []
    with _deciding:
        _witnesses += 1  # until it is none, no way of a call is decided for good: all go where they are seen
        for direct_call in list(_direct_calls):
            direct_call.look_again()
    try:
        yield _witness.seen
    finally:
        with _deciding:
            _witnesses -= 1
        _witness.seen = outer


def _write_down(executor: Boxed, args: tuple[Any, ...], outputs: Any) -> None:
    if _witness.seen is not None:
        _witness.seen.append(WitnessedCall(executor, args, outputs))


class DirectCall:
    """One compilation: joins what AOTAutograd was given with what Dynamo will call."""

    def __init__(self) -> None:
        self.look_again: Callable[[], None] = lambda: None
        self._executors: list[Boxed] = []
        self._wrapped = Wrapped()
        self._seen: list[tuple[Sequence[Any], Sequence[Any]]] = []
        self._watching: int | None = None  # the thread whose call is looked at

    def enter(self, executor: Boxed, wrapped: Wrapped | None = None) -> Callable[[list[Any]], Sequence[Any]]:
        """The executor as the inference compiler returns it to AOTAutograd.

        `wrapped` is what the compilation that traced the graph knew, where it is not the one in progress.
        """
        self._executors.append(executor)
        self._wrapped = Wrapped.now() if wrapped is None else wrapped
        run = executor.boxed

        def call(args: list[Any]) -> Sequence[Any]:
            if self._watching is None or self._watching != threading.get_ident():
                return run(args)
            given = tuple(args)
            outputs = run(args)
            self._seen.append((given, outputs))
            return outputs

        return boxed(call)

    def around(
        self, compiled: Callable[..., Any], inside_levels: Callable[..., Any] | None = None
    ) -> Callable[..., Any]:
        """What Dynamo calls: the executor itself as soon as it is known that nothing is in between; outside all modes.

        `inside_levels` is called instead inside a level of forward-mode AD, whose tangents a graph does not compute.
        """
        compiled = (
            outside_modes(compiled) if inside_levels is None else outside_levels(compiled, inside_levels)
        )
        if len(self._executors) != 1 or not self._wrapped.plain:
            return compiled
        executor = self._executors[0]
        run = executor.direct() if isinstance(executor, Replayer) else executor.boxed
        return _call(self, _counted(run, self._wrapped.written), compiled)

    @property
    def executor(self) -> Boxed:
        """The executor of the only graph."""
        return self._executors[0]

    def try_out(self, compiled: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, bool]:
        """The outputs of a call through the wrapper, and whether the wrapper left all values alone."""
        self._watching = threading.get_ident()
        try:
            results = compiled(*args)
            untouched = [_same(given, args) and _same(made, results) for given, made in self._seen]
        finally:
            self._watching = None
            self._seen.clear()
        return results, untouched == [True]


def outside_levels(run: Callable[..., Any], inside: Callable[..., Any]) -> Callable[..., Any]:
    """`run`, and `inside` in its place inside a level of forward-mode AD; both outside all modes."""

    def call(*args: Any) -> Any:
        if has_function_modes():
            with without_function_modes():
                return call(*args)
        return run(*args) if forward_ad._current_level < 0 else inside(*args)

    return call


def _call(
    direct_call: DirectCall, run: Callable[[Sequence[Any]], Any], compiled: Callable[..., Any]
) -> Callable[..., Any]:
    lock = new_lock()
    has_gradients, casts = torch.is_grad_enabled, torch._C._is_any_autocast_enabled
    decided = False
    cell: list[Callable[[Sequence[Any]], Any] | None] = [None]  # `run` as soon as it may be called

    def call(*args: Any) -> Any:
        if cell[0] is None or forward_ad._current_level >= 0:  # `compiled` knows what to do inside a level
            return compiled(*args) if decided or forward_ad._current_level >= 0 else first(args)
        if has_gradients() or casts() or has_function_modes():
            return without_modes(run, args)
        return run(args)

    def first(args: tuple[Any, ...]) -> Any:
        nonlocal decided
        # an operator of one thread may wait for the call of another one; only who writes calls down waits for his turn
        if not lock.acquire(blocking=_witness.seen is not None):
            return compiled(*args)
        try:
            results, direct = direct_call.try_out(compiled, args)
            with _deciding:
                if not _witnesses:
                    cell[0], decided = run if direct else None, True
            if direct:
                _write_down(direct_call.executor, args, results)
        finally:
            lock.release()
        return results

    def look_again() -> None:
        nonlocal decided
        cell[0], decided = None, False

    direct_call.look_again = look_again
    _direct_calls.add(direct_call)
    call.__dict__["air_direct_call"] = direct_call  # which lives as long as what Dynamo calls
    return _without_frames(cell, casts, has_gradients, call) or call


def _without_frames(
    cell: list[Any], casts: Callable[[], bool], gradients: Callable[[], bool], careful: Callable[..., Any]
) -> Callable[..., Any] | None:
    """`careful` as a builtin that hands its arguments to `cell[0]` where that is all `careful` would do."""
    make = native.builtin("air_direct_call", *[ctypes.py_object] * 7)
    if make is None:
        return None
    made: Callable[..., Any] = make(
        cell, casts, gradients, has_function_modes, careful, vars(forward_ad), _LEVEL
    )
    return made


def _counted(run: Callable[[Sequence[Any]], Any], written: tuple[int, ...]) -> Callable[[Sequence[Any]], Any]:
    """`run` after moving the version counters of the inputs it writes."""
    if not written:
        return run
    increment, tensors = torch.autograd.graph.increment_version, operator.itemgetter(*written)

    def counted(args: Sequence[Any]) -> Any:
        increment(tensors(args))
        return run(args)

    return counted


def without_side_effects(metadata: object) -> bool:
    """Whether AOTAutograd's wrapper only passes values on; False where its metadata is unknown."""
    return hasattr(metadata, _VERSIONS) and all(
        getattr(metadata, name, _UNKNOWN) in idle for name, idle in _SIDE_EFFECTS.items()
    )


def _same(some: Sequence[Any], others: object) -> bool:
    if not isinstance(others, (tuple, list)) or len(some) != len(others):
        return False
    return all(a is b for a, b in zip(some, others, strict=True))
