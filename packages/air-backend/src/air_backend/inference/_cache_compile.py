"""`cache_compile`: a compiled function that the next process finds on disk instead of tracing it.

    decode = air_backend.inference.cache_compile(model.decode, config=config, cache_dir="cache")
    decode(tokens, position)        # the first call traces and writes, or reads what was written

It is `torch.compile(..., fullgraph=True).aot_compile()` with a place for its files. One file is one traced graph with
the conditions under which it holds; a call takes the first graph whose conditions it meets, and where none does, it
traces another and writes it beside them. Arguments, parameters and the state of torch are checked in every call; source
code, hooks of modules, global numbers and strings, options and versions when a file is read. Nothing is deleted. Where
nothing can be written a warning says so once, and the function runs as it was traced.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, Final

import torch
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._dynamo.guards import CheckFunctionManager

from air_backend._backend import Backend
from air_backend.errors import CannotSave, NotServed, OptionsOfWrongType, TwoConfigurations
from air_backend.inference import _store
from air_backend.inference._key import Key, hooks_of
from air_config import CompilerConfig
from air_config.errors import NotSerializable
from air_graph import forks

log = logging.getLogger(__name__)

HOME: Final = "TORCHAIR_CACHE_HOME"
DEFAULT_HOME: Final = ".air_cache"
RESTARTS: Final = 16
CANNOT_BE_KEPT: Final = frozenset(CheckFunctionManager.UNSUPPORTED_SERIALIZATION_GUARD_TYPES)


def cache_compile(
    func: Callable[..., Any],
    *,
    config: CompilerConfig | None = None,
    backend: Backend | None = None,
    dynamic: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
    global_rank: int | None = None,
    tp_rank: int | None = None,
    pp_rank: int | None = None,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    ge_cache: bool = False,
) -> CachedFunction:
    """A function that is compiled once for all processes; `func` is a method of a module, or a function.

    The files lie below `cache_dir`, else below $TORCHAIR_CACHE_HOME, else in `.air_cache` of the working directory.
    It is for inference: calls run without gradients.
    """
    if ge_cache:
        raise NotServed(
            "inference.cache_compile(ge_cache=True)",
            "GE's own results are not kept; what is kept is the traced graph, and GE compiles it in each process",
            "leave ge_cache out",
        )
    if custom_decompositions or (backend is not None and backend.decompositions):
        raise CannotSave("it depends on custom_decompositions, functions that no key can hold")
    chosen = _configuration(config, backend)
    owner, function = (func.__self__, func.__func__) if isinstance(func, MethodType) else (None, func)
    if not isinstance(function, FunctionType):
        raise OptionsOfWrongType(type(func).__name__, "cache_compile(func)")
    try:
        key = Key.of(function, owner, chosen, dynamic)
    except NotSerializable as error:
        raise CannotSave(f"an option holds what cannot be written down: {error}") from error
    home = Path(cache_dir or os.environ.get(HOME) or DEFAULT_HOME)
    folder = home / key.name / _rank(global_rank, tp_rank, pp_rank) / function.__name__
    return CachedFunction(func, Backend(chosen), dynamic, _store.Store(folder, key))


class CachedFunction:
    """Traced graphs of one function, from the disk and of this process."""

    def __init__(
        self, func: Callable[..., Any], backend: Backend, dynamic: bool, store: _store.Store
    ) -> None:
        self._func = func
        self._self = (func.__self__,) if isinstance(func, MethodType) else ()
        asked: dict[str, Any] = {"guard_filter_fn": self._kept}
        with torch._dynamo.config.patch(enable_aot_compile=True):  # hangs `aot_compile` on what torch returns
            self._compiled: Any = torch.compile(
                func, backend=backend, fullgraph=True, dynamic=dynamic, options=asked
            )
        self._globals: dict[str, str] = {}
        self._store = store
        self._graphs: list[Any] | None = None
        self._keeps = True
        self._lock = forks.new_lock()

    @property
    def folder(self) -> Path:
        """Where the files of this function lie."""
        return self._store.folder

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = (*self._self, *args)
        with torch.no_grad():
            graphs = self._read() if self._graphs is None else self._graphs
            for graph in graphs:
                if graph.guard_check(*given, **kwargs):
                    return graph.fn(*given, **kwargs)
            return self._trace(args, kwargs).fn(*given, **kwargs)

    def _read(self) -> list[Any]:
        with self._lock:
            if self._graphs is None:
                self._graphs = self._store.read(self._func)
            return self._graphs

    def _trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._lock:
            graphs = self._read()
            if graphs:
                log.warning(
                    "%s: none of its %d graphs on disk or in memory holds for this call; it is traced once more",
                    self._store.key.function,
                    len(graphs),
                )
            hooks = hooks_of(self._func) if self._keeps else {}
            graph = self._traced(args, kwargs)
            self._keeps = self._keeps and self._store.write(graph, self._globals, hooks) is not None
            graphs.append(graph)
            return graph

    def _kept(self, guards: Sequence[Any]) -> list[bool]:
        """Which of Dynamo's conditions are checked in every call: all that mean something in another process.

        Modules, classes and functions are known by their source code, which is compared when a file is read, and so
        are the numbers and strings among the globals.
        """
        keeps = [
            not g.is_global and not CANNOT_BE_KEPT & {g.guard_type, *g.derived_guard_types} for g in guards
        ]
        dropped = [g for g, keep in zip(guards, keeps, strict=True) if not keep and g.is_global]
        self._globals = _store.plain_values((g.name for g in dropped), self._func)
        return keeps

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for _ in range(RESTARTS):
            try:
                return self._compiled.aot_compile((args, kwargs))
            except TensorifyScalarRestartAnalysis:  # a number is a constant after all; torch remembers which
                continue
        return self._compiled.aot_compile((args, kwargs))


def _configuration(config: CompilerConfig | None, backend: Backend | None) -> CompilerConfig:
    if config is not None and not isinstance(config, CompilerConfig):
        raise OptionsOfWrongType(type(config).__name__, "cache_compile(config=...)")
    if backend is not None and not isinstance(backend, Backend):
        raise OptionsOfWrongType(type(backend).__name__, "cache_compile(backend=...)")
    theirs = backend.config if backend is not None else None
    if config is not None and theirs is not None and config != theirs:
        raise TwoConfigurations("cache_compile")
    return config or theirs or CompilerConfig()


def _rank(global_rank: int | None, tp_rank: int | None, pp_rank: int | None) -> str:
    """The folder of one process of a job; ranks may hold different weights, and so different graphs."""
    distributed = torch.distributed
    running = distributed.is_available() and distributed.is_initialized()
    world = distributed.get_world_size() if running else 1
    rank = (distributed.get_rank() if running else 0) if global_rank is None else global_rank
    parts = [f"world{world}global_rank{rank}"]
    parts += [
        f"{name}{value}" for name, value in (("tp_rank", tp_rank), ("pp_rank", pp_rank)) if value is not None
    ]
    return "_".join(parts)
