"""The scripts that torch's minifier writes about graphs of this backend: what they begin with, and when.

torch minifies graphs of AOTAutograd for Inductor alone: its scripts call Inductor's compiler. For graphs of Dynamo
(`TORCHDYNAMO_REPRO_AFTER=dynamo`) its scripts name the backend and not its options. Those made here begin with a call
of `air_backend.repro.install`, which puts this backend, with the options of the compilation, in the place of both; the
scripts that such a script writes begin with it as well.
"""

from __future__ import annotations

import io
import logging
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from torch import fx
from torch._dynamo import config as dynamo_config
from torch._dynamo.repro import after_aot, after_dynamo

from air_config import CompilerConfig
from air_config.errors import NotSerializable
from air_graph import duplicate
from air_graph.executors import boxed

log = logging.getLogger(__name__)

COMPILER = "inductor"
"""The name under which torch minifies; the scripts are turned to this backend by their prelude."""


_EXTRA: Final = "extra_imports"  # in both modules: what the scripts that they write begin with
_BEFORE: Final = {module: getattr(module, _EXTRA) for module in (after_aot, after_dynamo)}
_begun: Final[list[CompilerConfig]] = []
"""The options of the script that this process runs, where torch's minifier wrote it."""


def begin_with_install(config: CompilerConfig) -> None:
    """Has all scripts that torch writes from now on begin with the options."""
    _begun[:] = [config]
    for module in _BEFORE:
        _begin_scripts_of(module, config)


def watch_dynamo(config: CompilerConfig) -> None:
    """Gives the options to the scripts about graphs of Dynamo, should torch's minifier write some."""
    if dynamo_config.repro_after == "dynamo":
        _begin_scripts_of(after_dynamo, config)


def unboxed(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """What AOTAutograd made, as torch's minifier can call it.

    AOTAutograd copies the mark of the boxed calling convention to a function that is not boxed; torch's comparison
    believes the mark, hands over a list, and takes the failure for a right result.
    """
    vars(compiled).pop("_boxed_call", None)
    return compiled


def is_watching() -> bool:
    """Whether torch's minifier wants to see every call: it was asked for, or this is a script that it wrote."""
    return dynamo_config.repro_after is not None or bool(_begun)


def compared(run: Callable[..., Any], gm: fx.GraphModule) -> Callable[..., Any]:
    """`run` with what torch's minifier asks of one: it compares a compiled graph with the module it is of."""
    vars(run).update(named_parameters=gm.named_parameters, named_buffers=gm.named_buffers)
    return run


def watched(
    compiler: Callable[..., Callable[..., Any]], config: CompilerConfig
) -> Callable[..., Callable[..., Any]]:
    """`compiler` with torch's minifier around it; it acts where `torch._dynamo.config.repro_after` says "aot"."""

    def inner(gm: fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
        return compiler(duplicate(gm), example_inputs, **kwargs)  # torch compares with the graph as it was

    def compile_watched(
        gm: fx.GraphModule, example_inputs: Sequence[Any], **kwargs: Any
    ) -> Callable[..., Any]:
        if dynamo_config.repro_after != "aot":
            return compiler(gm, example_inputs, **kwargs)
        wrap: Callable[..., Callable[..., Any]] = after_aot.wrap_compiler_debug
        with _prelude(config):
            run = wrap(inner, compiler_name=COMPILER)(gm, example_inputs, **kwargs)

        def call(args: list[Any]) -> Any:
            with _prelude(config):
                return run(args)

        return boxed(call)

    return compile_watched


def script(gm: fx.GraphModule, args: Sequence[Any], config: CompilerConfig) -> str:
    """A script that compiles and runs the graph alone, on random inputs of the same shapes."""
    text = io.StringIO()
    with _prelude(config):
        after_aot.save_graph_repro(text, gm, args, COMPILER)
    return text.getvalue()


@contextmanager
def _prelude(config: CompilerConfig) -> Iterator[None]:
    """What scripts about graphs of AOTAutograd that torch writes meanwhile begin with."""
    before = getattr(after_aot, _EXTRA)
    _begin_scripts_of(after_aot, config)
    try:
        yield
    finally:
        vars(after_aot)[_EXTRA] = before


def _begin_scripts_of(module: types.ModuleType, config: CompilerConfig) -> None:
    call = f"air_backend.repro.install({_options(config)!r})"
    vars(module)[_EXTRA] = f"{_BEFORE[module]}\nimport air_backend.repro\n{call}\n"


def _options(config: CompilerConfig) -> str:
    """The configuration as JSON, without the functions that no other process can import."""
    head = {name: value for name, value in config.to_dict(only_set=True).items() if name.startswith("$")}
    kept = CompilerConfig.from_dict(head)
    for path, value in config.assigned().items():
        alone = CompilerConfig()
        alone.set(path, value)
        try:
            alone.to_json(only_set=True)
        except NotSerializable as error:
            log.warning("the script leaves %s out: %s", path, error)
        else:
            kept.set(path, value)
    return kept.to_json(only_set=True, indent=None)
