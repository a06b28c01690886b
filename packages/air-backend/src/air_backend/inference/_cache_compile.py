"""`cache_compile`: a compiled function that the next process finds on disk instead of tracing it.

    decode = air_backend.inference.cache_compile(model.decode, config=config, cache_dir="cache")
    decode(tokens, position)        # the first call traces and writes, or reads what was written

It is `torch.compile(..., fullgraph=True).aot_compile()` with a place for its files. One file is one traced graph with
the conditions under which it holds; a call takes the first graph whose conditions it meets, and where none does, it
traces another and writes it beside them. Arguments, parameters, globals and the state of torch are checked in every
call; source code, hooks of modules, options and versions when a file is read. Nothing is deleted. Where nothing can be
written a warning says so once, and the function runs as it was traced.
"""

from __future__ import annotations

import copy
import inspect
import logging
import operator
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, Final

import torch
from torch import nn
from torch._dynamo.exc import PackageError, TensorifyScalarRestartAnalysis
from torch._dynamo.guards import CheckFunctionManager

from air_backend._backend import Backend, effective_config
from air_backend._keeping import no_caches
from air_backend._native_objects import native_objects_by_type
from air_backend.eager_calls._running import asks_for_an_error, running_eagerly
from air_backend.eager_calls.errors import SharedOtherwise
from air_backend.errors import CannotSave, OptionsOfWrongType, SharingRefused
from air_backend.inference import _store
from air_backend.inference._classes import Classes, classes_of
from air_backend.inference._conditions import Traced, arguments, looked_up, texts_of
from air_backend.inference._contained import question, with_questions
from air_backend.inference._environment import limits, texts_in, variables, without_values
from air_backend.inference._globals import use_globals_of
from air_backend.inference._groups import on_groups
from air_backend.inference._key import Key, cells_of, hooks_elsewhere, hooks_of, pin_options_of_the_trace
from air_backend.inference._local_classes import conditions_made_in, importable
from air_backend.inference._marks import Marks, marks_of
from air_backend.inference._one_module import make_collections_one
from air_backend.inference._references import through_names
from air_backend.inference._torchs_own import traceable
from air_backend.inference.errors import CacheWarning, CannotPickle, TwoConfigurations
from air_config import CompilerConfig
from air_config.errors import AirError, NotSerializable
from air_geir.engines import kept_in
from air_graph import forks, ranks
from air_graph.errors import first_line

log = logging.getLogger(__name__)

HOME: Final = "TORCHAIR_CACHE_HOME"
DEFAULT_HOME: Final = ".air_cache"
_WRITERS: Final = ("torch._dynamo.guards", "torch._dynamo.aot_compile")
GE_FILES: Final = "ge"
RESTARTS: Final = 16
#: Conditions on the length or the keys of a value.
OF_CONTENTS: Final = frozenset(
    {
        "SEQUENCE_LENGTH", "DICT_KEYS_MATCH", "DICT_CONTAINS", "DICT_NOT_CONTAINS", "SET_CONTAINS", "SET_NOT_CONTAINS",
        "EQUALS_MATCH",
    }
)  # fmt: skip
#: While conditions are written, classes have other names.
OF_NAMES: Final = (".__name__", ".__qualname__")
#: Torch writes no function or class down of which no more than its parts is asked.
OF_PARTS: Final = re.compile(r"\.__(closure|defaults|kwdefaults)__|\.__(name|qualname)__$")
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
    options: Mapping[str, Any] | CompilerConfig | None = None,
    mode: str | None = None,
    fullgraph: bool = True,
    disable: bool = False,
) -> CachedFunction:
    """A function that is compiled once for all processes; `func` is a method of a module, or a function.

    The files lie below `cache_dir`, else below $TORCHAIR_CACHE_HOME, else in `.air_cache` of the working directory.
    It is for inference: calls run without gradients. `options` and `mode`, as torch.compile has them, go before
    `config`. What no file can hold is compiled in each process, and a `CacheWarning` says why.
    With `ge_cache`, what the Graph Engine makes of a graph (max-autotune on an NPU) is kept beside it.
    """
    chosen = effective_config(_configuration(config, backend), mode, options)
    pin_options_of_the_trace(chosen)
    if ge_cache and (used := chosen.layered("mode")) != "max-autotune":
        _warn(f"ge_cache=True does nothing in mode {used}, which the Graph Engine has no part in")
    decompositions = dict(custom_decompositions or (backend.decompositions if backend is not None else {}))
    owner, function = (func.__self__, func.__func__) if isinstance(func, MethodType) else (None, func)
    if not isinstance(function, FunctionType):
        raise OptionsOfWrongType(type(func).__name__, "cache_compile(func)")
    place = Path(cache_dir or os.environ.get(HOME) or DEFAULT_HOME).absolute()
    rank = _rank(global_rank, tp_rank, pp_rank)

    def made() -> CachedFunction:
        store = None
        try:
            key = Key.of(function, owner, chosen, dynamic, decompositions)
            store = _store.Store(place / key.name / rank / function.__name__, key)
        except NotSerializable as error:
            _warn_not_kept(function, f"an option holds what cannot be written down: {error}")
        except CannotSave as error:
            _warn_not_kept(function, error.reason)
        return CachedFunction(
            traceable(func),
            Backend(chosen, decompositions),
            dynamic,
            store,
            fullgraph=fullgraph,
            ge_cache=ge_cache,
        )

    again = partial(
        cache_compile, config=chosen, dynamic=dynamic, cache_dir=place, global_rank=global_rank, tp_rank=tp_rank,
        pp_rank=pp_rank, custom_decompositions=decompositions, ge_cache=ge_cache, fullgraph=fullgraph, disable=disable,
    )  # fmt: skip
    compiled = made()
    compiled.made_anew(function, made, partial(_of_copy, func, again))
    return compiled.disabled() if disable else compiled


def _of_copy(
    func: Callable[..., Any], again: Callable[..., CachedFunction], memo: dict[int, Any]
) -> CachedFunction | None:
    """The cached function of a copy of the model; None of a function, of which there are no copies."""
    if not isinstance(func, MethodType):
        return None
    return again(MethodType(func.__func__, copy.deepcopy(func.__self__, memo)))


def _warn(text: str) -> None:
    warnings.warn(text, CacheWarning, stacklevel=_stacklevel())


def _warn_not_kept(function: Any, reason: str) -> None:
    _warn(f"{function.__qualname__} is not kept for other processes, each compiles it: {reason}")


def _stacklevel() -> int:
    """Of the first caller outside of this file."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_code.co_filename == __file__:
        frame, level = frame.f_back, level + 1
    return level


class _Absent:
    """Stands for a cached function in what Dynamo writes of the model that holds it."""


def _is_written_by_dynamo() -> bool:
    """Whether Dynamo has called us to pickle: with `aot_compile`, ours or that of the program."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__") not in _WRITERS:
        frame = frame.f_back
    return frame is not None


class CachedFunction:
    """Traced graphs of one function, from the disk and of this process."""

    _of_copy: Callable[[dict[int, Any]], CachedFunction | None] | None = None
    """Makes the function of a deep copy of the model."""

    def __init__(
        self,
        func: Callable[..., Any],
        backend: Backend,
        dynamic: bool,
        store: _store.Store | None,
        *,
        fullgraph: bool = True,
        ge_cache: bool = False,
    ) -> None:
        self._func = func
        self._made: Callable[[], CachedFunction] | None = None
        self._config = backend.config or CompilerConfig()
        self._in_process: Callable[..., Any] | None = None
        self._eager: Callable[..., Any] | None = None
        self._compile = partial(torch.compile, func, backend=backend, fullgraph=fullgraph, dynamic=dynamic)
        if store is None:
            self._in_process = self._compile()
            return
        self._self = (func.__self__,) if isinstance(func, MethodType) else ()
        self._function: Any = getattr(func, "__func__", func)
        self._names: list[str] = []
        self._texts_of_variables: set[str] | None = None
        self._named: dict[str, Any] = {}  # while a graph is traced: what its conditions are about
        asked: dict[str, Any] = {"guard_filter_fn": self._kept}
        with torch._dynamo.config.patch(enable_aot_compile=True):  # hangs `aot_compile` on what torch returns
            self._compiled: Any = torch.compile(
                func, backend=backend, fullgraph=True, dynamic=dynamic, options=asked
            )
        self._globals: dict[str, str] = {}
        self._marks: Marks = {}
        self._classes: Classes = {}
        self._store = store
        self._ge_files = store.folder / GE_FILES if ge_cache else None
        self._conditions: dict[str, str] = {}
        self._references: dict[str, str] = {}
        self._hooks: dict[str, list[str]] = {}
        self._graphs: list[Traced] | None = None
        self._keeps = True
        self._lock = forks.new_lock()

    @property
    def folder(self) -> Path:
        """Where the files of this function lie."""
        if not hasattr(self, "_store"):
            raise CannotSave("no file can hold it, as a warning has said")
        return self._store.folder

    def __reduce__(self) -> tuple[Any, ...]:
        """Torch writes the model with the conditions of its graph; what was compiled for it is no part of that."""
        if not _is_written_by_dynamo():
            raise CannotPickle(getattr(self._func, "__qualname__", str(self._func)))
        return _Absent, ()

    def __copy__(self) -> CachedFunction:
        """The same, as a copy of a method is: `copy.copy(model)` shares what the model holds."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> CachedFunction:
        made = None if self._of_copy is None else self._of_copy(memo)
        return self if made is None else made

    def disabled(self) -> CachedFunction:
        """The same, not compiled: `disable=True` of torch.compile."""
        self._in_process, self._made = self._func, None
        return self

    def made_anew(
        self,
        function: FunctionType,
        made: Callable[[], CachedFunction],
        of_copy: Callable[[dict[int, Any]], CachedFunction | None],
    ) -> None:
        """Lets another one take over when the program gives the function other code or defaults, and in copies."""
        self._is_of, self._made, self._parts = function, made, _parts(function)
        self._of_copy = of_copy

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._made is not None and not _are_same(_parts(self._is_of), self._parts):
            other = self._made()
            vars(self).update({**vars(other), "_made": self._made, "_is_of": self._is_of})
            self._parts = _parts(self._is_of)
        if self._in_process is not None:
            with torch.no_grad():
                return self._in_process(*args, **kwargs)
        given = (*self._self, *args)
        with torch.no_grad():
            graphs = self._read((args, kwargs)) if self._graphs is None else self._graphs
            graph = _holding(graphs, given, kwargs)
            if graph is not None:
                return self._run(graph.graph, args, kwargs)
            if (changing := _changing(graphs, given, kwargs)) is not None:
                self._keep_nothing(self._compile(fullgraph=False), f"{changing} changes from call to call")
                return self._in_process(*args, **kwargs)  # type: ignore[misc]  # which the line above has set
            try:
                graph = self._trace(args, kwargs)
            except Exception as error:
                raised = error
            else:
                return self._run(graph.graph, args, kwargs)
            return self._without_files(raised, args, kwargs)

    def _run(self, graph: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A graph whose conditions hold; what it refuses for the memory of its arguments runs eagerly."""
        try:
            return graph.fn(*self._self, *args, **kwargs)
        except SharingRefused as refused:
            return self._as_it_is(refused)(*args, **kwargs)

    def _as_it_is(self, refused: SharingRefused) -> Callable[..., Any]:
        """The function itself; raises where such a call is to be an error."""
        if asks_for_an_error(self._config):
            raise refused
        if self._eager is None:
            self._eager = running_eagerly(self._func, SharedOtherwise(refused))
        return self._eager

    def _without_files(self, raised: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the call gives where nothing is kept; from now on so do all, unless the call itself is wrong."""
        in_process = self._compile()
        reason = _why_not_kept(raised)
        if reason is not None:
            self._keep_nothing(in_process, reason)
            return in_process(*args, **kwargs)
        cause = getattr(raised, "inner_exception", raised)
        if isinstance(cause, SharingRefused):
            return self._as_it_is(cause)(*args, **kwargs)
        if isinstance(cause, AirError):  # a refusal of ours, such as options that do not go into a file
            raise raised
        result = in_process(*args, **kwargs)  # raises what has nothing to do with files
        reason = f"torch cannot trace it for a file ({type(cause).__name__}: {first_line(cause)})"
        self._keep_nothing(in_process, reason)
        return result

    def _keep_nothing(self, in_process: Callable[..., Any], reason: str) -> None:
        _warn_not_kept(getattr(self._func, "__func__", self._func), reason)
        self._in_process = in_process

    def _read(self, given: Any) -> list[Traced]:
        with self._lock:
            if self._graphs is None:
                with kept_in(self._ge_files), importable(self._func, given):
                    self._graphs = self._store.read(self._func)
            return self._graphs

    def _trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
        with self._lock:
            graphs = self._read((args, kwargs))
            if (made := _holding(graphs, (*self._self, *args), kwargs)) is not None:
                return made  # by another thread, while this one waited
            if graphs:
                log.warning(
                    "%s: none of its %d graphs on disk or in memory holds for this call; it is traced once more",
                    self._store.key.function,
                    len(graphs),
                )
            hooks = hooks_of(self._func) if self._keeps else {}
            named = partial(importable, self._func, (args, kwargs))
            with kept_in(self._ge_files), native_objects_by_type():
                self._named = arguments(self._function, (*self._self, *args), kwargs)
                try:
                    with conditions_made_in(named):
                        graph = self._traced(args, kwargs)
                    self._conditions.update(self._texts(self._names, ()))
                    sources = _store.sources_of(graph)
                    self._globals = without_values(self._globals) | limits(sources)
                    self._conditions = without_values(self._conditions)
                    if self._texts_of_variables is not None:
                        self._globals.update(variables(self._texts_of_variables, sources))
                finally:
                    self._named = {}
                facts = _store.Facts(
                    self._globals,
                    self._conditions,
                    self._references,
                    self._marks,
                    hooks,
                    self._hooks,
                    self._classes,
                )
                with named():
                    self._keeps = (
                        self._keeps and self._store.write(graph, facts, cells_of(self._func)) is not None
                    )
            use_globals_of(graph, self._function)
            made = _store.traced(
                graph, self._conditions, self._references, self._hooks, self._globals, self._func
            )
            graphs.append(made)
            return graphs[-1]

    def _kept(self, guards: Sequence[Any]) -> list[bool]:
        """Which of Dynamo's conditions are checked in every call: all that mean something in another process.

        What another process knows by name alone, functions and classes among them, is compared by `Conditions`, and
        once more, with all globals, when a file is read.
        """
        keeps = [
            not (g.is_global or OF_PARTS.search(g.name))
            and not (on_group or CANNOT_BE_KEPT & {g.guard_type, *g.derived_guard_types})
            for g, on_group in zip(guards, on_groups(guards), strict=True)
        ]
        self._texts_of_variables = texts_in(guards)
        self._marks = marks_of(guards)
        self._classes = classes_of(guards)
        modules = {g.name: g.value for g in guards if isinstance(g.value, nn.Module)}
        self._hooks = hooks_elsewhere(modules, self._func) if self._keeps else {}
        dropped = [g for g, keep in zip(guards, keeps, strict=True) if not keep]
        about_contents = [g for g in guards if OF_CONTENTS & {g.guard_type, *g.derived_guard_types}]
        contents = {g.name for g in about_contents if question(g) is None}
        names = with_questions(g for g in dropped if g.is_global)
        self._globals = _store.global_values(names, contents, self._func)
        others = with_questions(g for g in dropped if not g.is_global)
        self._names = [name for name in others if name.endswith(OF_NAMES)]
        self._conditions = self._texts((name for name in others if not name.endswith(OF_NAMES)), contents)
        kept = [g for g, keep in zip(guards, keeps, strict=True) if keep]
        scope = _store.scope_of(self._func)
        sources = {**scope, "L": self._named}
        named = [g.name for g in through_names(kept, lambda name: looked_up(name, sources, {}))]
        self._references = texts_of(named, contents, scope, self._named, compared=())
        return keeps

    def _texts(self, names: Iterable[str], contents: Collection[str]) -> dict[str, str]:
        return texts_of(names, contents, _store.scope_of(self._func), self._named)

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if (switched_off := no_caches()) is not None:  # torch has an error of its own for one of them
            raise CannotSave(switched_off)
        make_collections_one()
        for _ in range(RESTARTS):
            try:
                return self._compiled.aot_compile((args, kwargs))
            except TensorifyScalarRestartAnalysis:  # a number is a constant after all; torch remembers which
                continue
        return self._compiled.aot_compile((args, kwargs))


def _parts(function: FunctionType) -> tuple[object, ...]:
    """What the program may replace of a function."""
    named = (function.__kwdefaults__ or {}).items()
    return function.__code__, *(function.__defaults__ or ()), *(part for item in named for part in item)


def _are_same(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _holding(graphs: Sequence[Traced], given: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced | None:
    """The first graph that may be called with these arguments."""
    return next((graph for graph in graphs if graph.holds(given, kwargs)), None)


def _changing(graphs: Sequence[Traced], given: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """A global for which as many graphs were traced as torch allows a function."""
    if len(graphs) < torch._dynamo.config.recompile_limit:
        return None
    names = [name for graph in graphs if (name := graph.changed(given, kwargs)) is not None]
    return names[-1] if len(names) >= torch._dynamo.config.recompile_limit else None


#: How torch begins what it says of a class, or a function, that it cannot write down.
_TORCHS_REFUSALS: Final = (
    "cannot be saved into torch.compile() package",
    "package due to",
    "cannot be serialized",
)
_LOCAL_CLASS: Final = re.compile(
    r"Type <class '(.*?)'> for object .* since it's defined in local scope", re.DOTALL
)


def _why_not_kept(error: BaseException) -> str | None:
    """Why what was traced has no place in a file; None for any other error."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, CannotSave):
            return found.reason
        text = str(found)
        if isinstance(found, (TypeError, PackageError)) and any(said in text for said in _TORCHS_REFUSALS):
            local = _LOCAL_CLASS.match(text)
            return f"class {local[1]} is made inside a function" if local else first_line(found)
        found = getattr(found, "inner_exception", None) or found.__cause__ or found.__context__
    return None


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
    own, size = ranks.rank_and_size()
    parts = [f"world{size}global_rank{own if global_rank is None else global_rank}"]
    parts += [
        f"{name}{value}" for name, value in (("tp_rank", tp_rank), ("pp_rank", pp_rank)) if value is not None
    ]
    return "_".join(parts)
