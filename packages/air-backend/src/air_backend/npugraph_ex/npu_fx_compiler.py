"""The compiler of npugraph_ex under the names that vLLM-Ascend and plug-ins of vLLM use of it.

    compiled = _NpuFxCompiler(config)(gm, example_inputs)     a graph of ATen operators
    text = compiled.get_code()                                for a file of the caller's
    _CompiledFxGraph.load_artifacts(_CompiledFxArtifacts(py_code=text))(*inputs)      in another process

Every graph of a backend made here goes through `_NpuFxCompiler._get_compiled_gm`, looked up at that moment: a client
may put a function of its own in its place for the time of a compilation, as vLLM-Ascend does to keep the text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from torch import fx
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.export import ExportedProgram

import air_config
from air_backend import _backend
from air_backend._compilation import Compilation, GraphFacts
from air_backend._given_calls import compiled_graph
from air_backend._kinds import example_values
from air_backend.errors import NotAGraphModule
from air_backend.npugraph_ex import _artifacts
from air_backend.npugraph_ex.configs.compiler_config import CompilerConfig, _process_kwargs_options
from air_backend.npugraph_ex.core import _concrete_graph

__all__ = ["backend", "compile_fx", "get_compiler", "get_npu_backend"]

log = logging.getLogger(__name__)


@dataclass
class _CompiledFxArtifacts:
    """What is kept of a compiled graph: a text."""

    version: str = _artifacts.VERSION
    py_code: str | None = None


class _CompiledFxGraph:
    """A compiled graph: called with its inputs, one by one."""

    def __init__(
        self,
        runner: Callable[[list[Any]], Any],
        config: air_config.CompilerConfig | None = None,
        code: Callable[[], str] | None = None,
    ) -> None:
        self.runner = runner
        self.config = config
        self.calls: Callable[..., Any] | None = None
        """Who serves the calls, where nobody else sees to it that they are those that were compiled for."""
        self._code = code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.runner(list(args)) if self.calls is None else self.calls(*args, **kwargs)

    def get_code(self, extend_config: Mapping[str, Any] | None = None) -> str:
        """The graph as a text that `load_artifacts` reads; empty, with a warning, where it cannot be one."""
        try:
            return self._code() if self._code is not None else ""
        except _artifacts.CannotBeText as reason:
            log.warning("this graph cannot be kept for another process: %s", reason)
            return ""

    def dump_artifacts(self) -> _CompiledFxArtifacts:
        """The same, as the object that `load_artifacts` takes."""
        return _CompiledFxArtifacts(py_code=self.get_code())

    @classmethod
    def load_artifacts(cls, artifacts: _CompiledFxArtifacts) -> _CompiledFxGraph:
        """Lowers a graph that another process wrote. What is in the text runs: read none that others can write."""
        saved = _artifacts.read(artifacts.py_code, artifacts.version)
        return cls(saved, saved.config, lambda: str(artifacts.py_code))


class _NpuFxCompiler:
    """Compiles graphs of ATen operators by one configuration."""

    def __init__(self, compiler_config: air_config.CompilerConfig) -> None:
        self.config = compiler_config

    def __call__(self, gm: fx.GraphModule, example_inputs: Sequence[Any] | None = None) -> _CompiledFxGraph:
        if not isinstance(gm, fx.GraphModule):
            raise NotAGraphModule(type(gm).__name__)
        if example_inputs is None:
            example_inputs = example_values(gm)
        return self._get_compiled_gm(gm, example_inputs)

    def _get_compiled_gm(self, gm: fx.GraphModule, example_inputs: Sequence[Any]) -> _CompiledFxGraph:
        part_of = _in_progress.get()
        _in_progress.set(None)  # what is compiled while this one is has its own
        compilation, known = part_of or (Compilation(self.config), GraphFacts.now("inference", gm))
        code = _artifacts.writer(gm, known, compilation.config, _given.get() if part_of else None)
        run = Compilation.compile(compilation, gm, example_inputs, known)
        return _CompiledFxGraph(run, self.config, code)


_in_progress: Final[ContextVar[tuple[Compilation, GraphFacts] | None]] = ContextVar(
    "npugraph_ex_compilation", default=None
)


_given: Final[ContextVar[int | None]] = ContextVar("npugraph_ex_inputs", default=None)
"""How many inputs the graph of Dynamo has that is compiled."""


class _ReplaceableCompilation(Compilation):
    """A compilation whose graphs pass by the names of this module."""

    def compile(
        self, gm: fx.GraphModule, example_inputs: Sequence[Any], known: GraphFacts
    ) -> Callable[..., Any]:
        token = _in_progress.set((self, known))
        try:
            compiled: Any = _NpuFxCompiler(self.config)._get_compiled_gm(gm, example_inputs)  # or a client's
        finally:
            _in_progress.reset(token)
        return compiled.runner if isinstance(compiled, _CompiledFxGraph) else make_boxed_func(compiled)


class Backend(_backend.Backend):
    """The backend `npugraph_ex` of `torch.compile`."""

    compilation = _ReplaceableCompilation

    def __init__(
        self,
        config: air_config.CompilerConfig | None = None,
        decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    ) -> None:
        super().__init__(CompilerConfig() if config is None else config, decompositions)
        self.__name__ = "npugraph_ex"

    def __call__(
        self, gm: fx.GraphModule | ExportedProgram, example_inputs: Sequence[Any], **asked: Any
    ) -> Callable[..., Any]:
        token = _given.set(len(example_inputs))
        try:
            return super().__call__(gm, example_inputs, **asked)
        finally:
            _given.reset(token)


backend: Final = Backend()
"""What `torch.compile(backend="npugraph_ex")` means."""


def get_npu_backend(
    *,
    compiler_config: air_config.CompilerConfig | None = None,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> Backend:
    """A backend for `torch.compile(model, backend=...)` with a configuration of its own."""
    config = _backend.config_given(compiler_config, "npugraph_ex.get_npu_backend", CompilerConfig)
    return Backend(config, custom_decompositions)


def get_compiler(compiler_config: air_config.CompilerConfig | None = None) -> _NpuFxCompiler:
    """A compiler of ATen graphs, `compiler(gm, example_inputs)`, for a backend that calls AOTAutograd itself."""
    call = "npugraph_ex.get_compiler"
    return _NpuFxCompiler(_backend.config_given(compiler_config, call, CompilerConfig))


def compile_fx(
    gm: fx.GraphModule | ExportedProgram,
    example_inputs: Sequence[Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> _CompiledFxGraph | Callable[..., Any]:
    """Compiles a graph; without inputs they are taken from the placeholders' metadata.

    A graph of ATen operators that writes only its arguments, at its end, is compiled at once, any other one at
    its first call, as is a program of `torch.export`. Calls in another state, with gradients for example, have
    the graph compiled for that state as well; arguments of other types and sizes are refused (`OtherInput`).
    """
    config = CompilerConfig()
    _process_kwargs_options(config, {"options": options})
    if isinstance(gm, ExportedProgram):
        return _backend.compiled_program(gm, Backend(config))
    if not isinstance(gm, fx.GraphModule):
        raise NotAGraphModule(type(gm).__name__)
    made: list[_CompiledFxGraph] = []

    def direct(flat: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        made.append(get_compiler(config)(flat, inputs))
        return _called_one_by_one(made[0])

    run = compiled_graph(gm, example_inputs, Backend(config), direct)
    if not made:
        return run
    if isinstance(made[0], _CompiledFxGraph):  # and not a client's
        made[0].calls = run
    return made[0]


def _called_one_by_one(compiled: Any) -> Callable[..., Any]:
    if not isinstance(compiled, _CompiledFxGraph):
        return compiled  # type: ignore[no-any-return]  # a client's
    runner = compiled.runner
    return lambda *args: runner(list(args))


def _unpack_meta_list(values: Sequence[Any]) -> list[Any]:
    """The values of the trace among the items of a list."""
    return [value.meta if isinstance(value, _concrete_graph.ValuePack) else value for value in values]


def _unpack_meta(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The values of the trace among arguments, also inside of lists and dictionaries."""
    return [_part(arg, "meta") for arg in args], {name: _part(arg, "meta") for name, arg in kwargs.items()}


class _NpuGraphConverter:
    """A name that vLLM-Ascend puts a function of its own on. AIR has no step between a graph and its executor here."""

    @staticmethod
    def _unpack_npu(
        converter: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """What stands in the graph for values among arguments, also inside of lists and dictionaries."""
        return [_part(arg, "npu") for arg in args], {name: _part(arg, "npu") for name, arg in kwargs.items()}


def _part(arg: Any, side: str) -> Any:
    if isinstance(arg, _concrete_graph.ValuePack):
        return getattr(arg, side)
    if isinstance(arg, (list, tuple)):
        return [_part(value, side) for value in arg]
    if isinstance(arg, dict):
        return {key: _part(value, side) for key, value in arg.items()}
    return arg
