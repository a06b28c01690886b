"""The object that `torch.compile` calls: `air`, and what `get_npu_backend` returns.

The entry point `air` is a `Backend` without a configuration of its own: it takes everything from
`torch.compile(mode=..., options=...)`. `get_npu_backend(compiler_config=...)` gives one with a configuration;
options given to `torch.compile` beside it apply on top of it, for that compilation alone.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.eval_frame import cached_backends
from torch._guards import CompileContext
from torch.export import ExportedProgram

import air_aclgraph
import air_streams
from air_backend import _devices, _foreign_ops, _hidden_writes, _logs, _minifier, _records, _variables
from air_backend._attention_with_dropout import hand_seeds_on, refuse_lost_seeds
from air_backend._compilation import Compilation
from air_backend._compile import compile_aten
from air_backend._decompositions import decompositions_of
from air_backend._for_dynamo import for_dynamo
from air_backend._given_calls import compiled_graph, guarded
from air_backend._keeping import keeping
from air_backend._meshes import forget_meshes
from air_backend._npu_traces import trace_on_npu
from air_backend._one_by_one import call_one_by_one
from air_backend._overlapping_results import layout_of_gradients
from air_backend._results_of_functions import calls_functions, keep_backward_of_functions
from air_backend._shared_memory import Sharing
from air_backend.dump import debug_folder, readable
from air_backend.eager_calls._running import asks_for_an_error
from air_backend.eager_calls._tangents import with_tangents
from air_backend.eager_calls._untraceable import eager_instead, say_where
from air_backend.errors import NotAGraphModule, OptionsOfWrongType, UnknownMode
from air_config import PRESETS, CompilerConfig
from air_graph import duplicate, mend_margins, state_dense_results_on_npu

log = logging.getLogger(__name__)


class Backend:
    """A `torch.compile` backend: callable on a Dynamo graph, with `reset()`."""

    compilation: Callable[..., Compilation] = Compilation
    """Makes what the graphs of one call are compiled with."""

    def __init__(
        self,
        config: CompilerConfig | None = None,
        decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    ) -> None:
        trace_on_npu()
        state_dense_results_on_npu()
        mend_margins()
        self.__name__ = "air"
        self.config = config
        self.decompositions = decompositions_of(decompositions)

    @property
    def keywords(self) -> dict[str, Any]:
        """What the backend was made with, under the names of `get_npu_backend`."""
        return {"compiler_config": self.config, "custom_decompositions": self.decompositions}

    def __call__(
        self,
        gm: fx.GraphModule | ExportedProgram,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | CompilerConfig | None = None,
    ) -> Callable[..., Any]:
        config = effective_config(self.config, mode, options)
        if isinstance(gm, ExportedProgram):
            return compiled_program(gm, Backend(config, self.decompositions))
        if CompileContext.current_compile_id() is not None:  # a reset forgets whom the next one has to reset
            cached_backends.setdefault(id(self), self)
        _minifier.watch_dynamo(config)
        folder = debug_folder()
        if folder is not None:
            folder.text("dynamo_out_graph.txt", readable(gm))
        kept = keeping(gm, config, self.decompositions)
        original = duplicate(gm) if air_streams.is_native(gm) or calls_functions(gm) else gm
        _foreign_ops.adopt(gm)
        hand_seeds_on(gm)
        call_one_by_one(gm)
        around = _hidden_writes.mark_writes(gm)
        native = air_streams.normalize(gm)
        compilation = self.compilation(
            config,
            folder,
            to_file=kept == "file",
            objects=native.objects,
            outside=native.outside,
            sharing=Sharing.of(gm, example_inputs),
        )
        through_aot = _through_aot
        if kept != "no":
            from air_backend import _saved  # with Inductor, whose cache it is

            through_aot = _saved.through_aot
        try:
            compilation.sharing.check(gm)
            refuse_lost_seeds(gm)
            keep_backward_of_functions(gm)
            return through_aot(gm, example_inputs, compilation, self.decompositions, around, original)
        except Exception as error:
            say_where(error)
            if kept == "file" or asks_for_an_error(config):
                raise
            eager = eager_instead(original, compilation.sharing, error)
            if eager is None:
                raise
            return eager

    def reset(self) -> None:
        """Drops captured graphs, pools and caches; torch calls it from `torch._dynamo.reset()`."""
        _records.close_all()
        _devices.forget_device()


NOT_LAZY: Final = "force_non_lazy_backward_lowering"
"""torch's switch for a backward that is compiled with its forward."""

#: Modes of torch's own that mean one of ours: graphs compiled without a capture of their launches.
TORCHS_MODES: Final = {"max-autotune-no-cudagraphs": "max-autotune"}


def mode_named(mode: str) -> str:
    """The preset that a mode of `torch.compile` means, torch's own names included."""
    meant = TORCHS_MODES.get(mode, mode)
    if meant not in PRESETS:
        raise UnknownMode(mode, (*PRESETS, *TORCHS_MODES))
    return meant


def effective_config(
    base: CompilerConfig | None, mode: str | None, options: Mapping[str, Any] | CompilerConfig | None
) -> CompilerConfig:
    """The configuration of one compilation: the backend's own, then `mode`, then `options`."""
    if options is not None and not isinstance(options, (Mapping, CompilerConfig)):
        raise OptionsOfWrongType(type(options).__name__)
    asked = CompilerConfig.from_options(options)
    if base is None and mode is None:
        return asked
    preset = CompilerConfig() if mode is None else CompilerConfig.preset(mode_named(mode))
    if base is None:
        config, above = preset, asked.asked()
    else:
        config, above = copy.deepcopy(base), {**preset.asked(), **asked.asked()}
    for path, value in above.items():
        config.set(path, value)
    return config


def _through_aot(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    compilation: Compilation,
    decompositions: Mapping[Any, Callable[..., Any]],
    around: _hidden_writes.Around,
    original: fx.GraphModule,
) -> Callable[..., Any]:
    """Makes the graph functional by AOTAutograd and compiles what comes out; `original` serves other calls."""
    ahead = compilation.ahead(example_inputs)
    lazy = {NOT_LAZY: True} if ahead else {}
    with torch._functorch.config.patch({**lazy, **layout_of_gradients(gm)}):
        forget_meshes()
        compiled: Callable[..., Any] = aot_autograd(
            fw_compiler=compilation.compiler("forward"),
            bw_compiler=compilation.compiler("backward", ahead=ahead),
            inference_compiler=compilation.compiler("inference"),
            decompositions=dict(decompositions),
            **compilation.front,
        )(gm, example_inputs)
    return for_dynamo(compiled, gm, original, compilation, around)


def get_npu_backend(
    *,
    compiler_config: CompilerConfig | None = None,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> Backend:
    """A backend for `torch.compile(model, backend=...)` with a configuration of its own.

    `torch.compile(model, backend="air", mode=..., options={...})` does without it; `mode` and `options` given beside a
    backend that was made here apply on top of its configuration.

    Args:
        compiler_config: the options, as an object: `config.mode = "reduce-overhead"`. None is the default one.
        custom_decompositions: from operators of ATen to functions that compute them with others, for AOTAutograd:
            `{torch.ops.aten.silu.default: my_silu}`. They come before AIR's own.

    Returns:
        What `backend=` of torch.compile takes. It may serve several functions.

    Raises:
        OptionsOfWrongType: `compiler_config` is no `CompilerConfig`, but a dict, for example.
        NoDecomposition: a key is no operator, or its value no function.

    Example:
        >>> config = CompilerConfig()
        >>> config.mode = "reduce-overhead"
        >>> model = torch.compile(model, backend=get_npu_backend(compiler_config=config))
    """
    return Backend(config_given(compiler_config, "get_npu_backend"), custom_decompositions)


def get_compiler(compiler_config: CompilerConfig | None = None) -> Callable[..., Any]:
    """A compiler of ATen graphs, `compiler(gm, example_inputs)`, for a backend that calls AOTAutograd itself.

    What it gives takes the inputs one by one, and `dump_artifacts()` of it is what another process can load.
    """
    # it is a backend, and needs this module
    from air_backend.npugraph_ex.npu_fx_compiler import _NpuFxCompiler

    config = config_given(compiler_config, "get_compiler")
    return _minifier.watched(_NpuFxCompiler(config), config)


def config_given(
    config: CompilerConfig | None, call: str, default: type[CompilerConfig] = CompilerConfig
) -> CompilerConfig:
    """The configuration that a call got, which may be none."""
    if config is not None and not isinstance(config, CompilerConfig):
        raise OptionsOfWrongType(type(config).__name__, f"{call}(compiler_config=...)")
    return default() if config is None else config


def compiled_program(program: ExportedProgram, backend: Callable[..., Any]) -> Callable[..., Any]:
    """What `torch.export` made, called as the module that was exported, with its parameters and buffers inside.

    Sizes that were exported as dynamic may differ between calls.
    """
    dynamic = None if program.range_constraints else False
    return guarded(program.module(), backend, dynamic)


def compile_fx(
    gm: fx.GraphModule | ExportedProgram,
    example_inputs: Sequence[Any] | None = None,
    options: Mapping[str, Any] | CompilerConfig | None = None,
) -> Callable[..., Any]:
    """Compiles a graph; without inputs they are taken from the placeholders' metadata.

    A graph of ATen operators that writes only its arguments, at its end, is compiled at once, any other one at
    its first call, as is a program of `torch.export`. Calls in another state, with gradients for example, have
    the graph compiled for that state as well; arguments of other types and sizes are refused (`OtherInput`).
    """
    if isinstance(gm, ExportedProgram):
        return compiled_program(gm, Backend(effective_config(None, None, options)))
    if not isinstance(gm, fx.GraphModule):
        raise NotAGraphModule(type(gm).__name__)
    config = effective_config(None, None, options)

    def direct(flat: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        record, executor = compile_aten(flat, inputs, config)
        _records.keep(record, executor)
        return air_aclgraph.outside_levels(executor, with_tangents(None, config))

    return compiled_graph(gm, example_inputs, Backend(config), direct)


_logs.register_alias()
_logs.read_variable()
_variables.warn_of_unread()
air = Backend()
