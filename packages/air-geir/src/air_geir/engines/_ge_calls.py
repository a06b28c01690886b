"""The functions of the binding with Python types: the session of the process, its graphs, and memory from torch."""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from air_geir.engines import native
from air_geir.engines._failures import failure, no_memory
from air_geir.engines._options import refuse_change
from air_geir.errors import EngineError, EngineUnavailableError

_NOT_OF_THE_ENGINE = frozenset({"ge_run_with_torch_npu"})
"""Options for the extension itself, which keeps them from the engine."""
_ZERO_COPY = {"ge.exec.memoryOptimizationPolicy": "MemoryPriority", "ge.exec.reuseZeroCopyMemory": "1"}
"""Options of every graph that runs in the caller's memory; the extension adds the same."""
_FUNCTIONS = ("error", "allocator", "call", "run", "done", "drop")
"""Functions of the session library that the torch library calls, in the order of call.h."""
Port = tuple[int, torch.dtype, bool]
"""A tensor of each call: the engine's number of its type, torch's type, whether it lies on the host."""
Run = Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor | None]], Sequence[torch.Tensor]]


class Described(ctypes.Structure):
    """A tensor, as call.h has it."""

    _fields_ = (
        ("at", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("type", ctypes.c_int32),
        ("placement", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("padding", ctypes.c_int32),
        ("dims", ctypes.c_int64 * 32),
    )
    rank: int
    dims: Any


class MemoryNeeds(ctypes.Structure):
    """Bytes of memory that a graph of fixed sizes wants, as session.cpp has it."""

    _fields_ = (
        ("constants", ctypes.c_size_t),
        ("features", ctypes.c_size_t),
        ("fixed", ctypes.c_size_t),
        ("refreshable", ctypes.c_int32),
        ("padding", ctypes.c_int32),
    )
    constants: int
    features: int
    fixed: int
    refreshable: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What the engine says of a compiled graph."""

    shapes: list[tuple[int, ...]] | None
    """Of the results; None where they follow from the inputs."""
    constants: int
    features: int
    fixed: int
    """The part of `features` that must stay at one address; all of it where none may move."""


class Calls:
    """The session of this process."""

    def __init__(self, library: ctypes.CDLL, torch_half: Any, options: Mapping[str, str]) -> None:
        library.air_ge_error.restype = ctypes.c_char_p
        self._library, self._torch = library, torch_half
        functions = (getattr(library, f"air_ge_{name}") for name in _FUNCTIONS)
        self._functions = b"".join(ctypes.c_void_p(ctypes.cast(f, ctypes.c_void_p).value) for f in functions)
        self.options = dict(options)
        told = {key: value for key, value in options.items() if key not in _NOT_OF_THE_ENGINE}
        own = {**told, "ge.session_device_id": options["ge.exec.deviceId"]}
        failed = library.air_ge_start(*_pairs(told), *_pairs(own))
        self._check(failed, "start its session", "of this process")

    def add(self, number: int, name: str, model: bytes, options: Mapping[str, str]) -> None:
        """Hand a graph over."""
        size = ctypes.c_size_t(len(model))
        pairs = _pairs({**_ZERO_COPY, **options})
        failed = self._library.air_ge_add(number, name.encode(), model, size, *pairs)
        self._check(failed, "add", name)

    def compile(self, number: int, name: str) -> None:
        """Compile a graph."""
        self._check(self._library.air_ge_compile(number), "compile", name)

    def summary(self, number: int, results: int, name: str) -> Summary:
        """What the engine says of it."""
        static = ctypes.c_int()
        wanted, count = MemoryNeeds(), ctypes.c_size_t()
        found = (Described * max(results, 1))()
        told = (
            ctypes.byref(static),
            ctypes.byref(wanted),
            found,
            ctypes.c_size_t(results),
            ctypes.byref(count),
        )
        self._check(self._library.air_ge_summary(number, *told), "summarize", name)
        if static.value and count.value != results:
            raise EngineError(
                f"the graph engine says graph {name} has {count.value} results, it has {results}",
                advice="use engine='torchair_extension', and report it with the graph (config.debug.graph_dump)",
            )
        shapes = [tuple(one.dims[: one.rank]) for one in found[:results]] if static.value else None
        fixed = wanted.fixed if wanted.refreshable else wanted.features
        return Summary(shapes, wanted.constants, wanted.features, fixed)

    def give_memory(self, number: int, summary: Summary, name: str) -> list[torch.Tensor]:
        """Memory for constants, and for intermediate values that must not move, for as long as the graph lives."""
        moves = summary.fixed != summary.features
        features = self._library.air_ge_fixed_features if moves else self._library.air_ge_features
        return [
            self._give(number, size, give, name)
            for size, give in ((summary.constants, self._library.air_ge_constants), (summary.fixed, features))
            if size
        ]

    def give_passing_memory(self, number: int, summary: Summary, name: str) -> torch.Tensor | None:
        """Memory for the other intermediate values, for one run; it is reused afterwards, in stream order."""
        size = summary.features - summary.fixed
        return self._give(number, size, self._library.air_ge_refreshable_features, name) if size else None

    def _give(self, number: int, size: int, give: Any, name: str) -> torch.Tensor:
        try:
            made = torch.empty(size, dtype=torch.uint8, device="npu")
        except torch.OutOfMemoryError as error:
            raise no_memory(error, name) from error
        known = ctypes.c_void_p(made.data_ptr()), ctypes.c_size_t(made.nbytes)
        self._check(give(number, *known), "give memory to", name)
        return made

    def prepared(
        self, number: int, inputs: Sequence[Port], results: Sequence[Port], *, is_fixed: bool
    ) -> Run:
        """A function that runs the graph on the current stream, with its inputs and with its results.

        A result that is None gets memory during the run; the function returns all results. `is_fixed`: all sizes are
        those of the first call. Pass its exceptions to `of_a_run`.
        """
        made = self._torch.call(self._functions, number, tuple(inputs), tuple(results), is_fixed)
        return partial(self._torch.run, made)

    def remove(self, number: int) -> None:
        """Forget a graph."""
        self._library.air_ge_remove(number)

    def stop(self) -> None:
        """End the session."""
        self._library.air_ge_stop()

    def _check(self, status: int, doing: str, name: str) -> None:
        if status:
            said = self._library.air_ge_error().decode(errors="replace").strip()
            raise failure(doing, name, said or f"error {status:#x}")


def _pairs(options: Mapping[str, str]) -> tuple[Any, ctypes.c_size_t]:
    flat = [text.encode() for pair in options.items() for text in pair]
    return (ctypes.c_char_p * max(len(flat), 1))(*flat), ctypes.c_size_t(len(options))


_calls: list[Calls] = []


def started(options: Mapping[str, str]) -> Calls:
    """The session, started by the first graph; later graphs must want the same options."""
    if not _calls:
        engine = native.runner()
        if engine is None:
            raise EngineUnavailableError(f"{native.LIBRARY} cannot be loaded", advice="install CANN")
        torch.get_device_module("npu").current_stream()
        _calls.append(Calls(native.library(engine), native.calls(), options))
        atexit.register(_calls[0].stop)
    refuse_change(_calls[0].options, options)
    return _calls[0]
