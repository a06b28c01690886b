"""A compiled graph as a text that a client keeps in a file of its own: vLLM's cache of compiled graphs.

    # AIR 1: ...                          what it is, and the versions it is for
    # class GraphModule(...): ...         the graph, for people
    from air_backend.npugraph_ex._artifacts import kernel_of
    kernel = kernel_of("gASV...")

What is kept is the graph as AOTAutograd made it (see `air_backend._saved`); who reads the text lowers it again. The
loaded graph is called without AOTAutograd's wrapper: where that wrapper does work of its own, there is no text.
"""

from __future__ import annotations

import ast
import base64
import copy
import pickle
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import fx
from torch._guards import TracingContext

from air_backend._compilation import Compilation, GraphFacts
from air_backend._version import __version__
from air_backend.dump import readable
from air_backend.errors import NotACache
from air_config import CompilerConfig

VERSION: Final = "0.1"
MARK: Final = "# AIR 1: a graph of air-backend"
PLACE: Final = "the text of a compiled graph"


class CannotBeText(Exception):
    """Why a graph cannot be kept."""


#: What AOTAutograd's wrapper does beside passing values on: name in its metadata, and what that means.
_WORK: Final = {
    "num_intermediate_bases": "outputs are views of one another, and made after the graph",
    "num_mutated_inp_runtime_indices": "inputs are written after the graph",
    "num_graphsafe_rng_states": "the state of the generator is an input of the graph",
    "grad_enabled_mutation": "gradients are switched after the graph",
    "tokens": "side effects are ordered by tokens",
}


def writer(
    gm: fx.GraphModule, known: GraphFacts, config: CompilerConfig, given: int | None = None
) -> Callable[[], str]:
    """A function that gives the text of a graph later; the graph is copied now, before passes edit it.

    `given` is how many inputs the graph of Dynamo has, where it is known.
    """
    from air_backend import _saved  # with Inductor, whose base class it derives from

    if obstacle := _around(gm, known, given):
        return lambda: _refuse(obstacle)
    shown = readable(gm)
    try:
        saved = _saved.Saved.of(gm, known, Compilation(config))
    except Exception as error:  # whatever pickling an argument, a constant or an option raises
        reason = f"{type(error).__name__}: {error}"
        return lambda: _refuse(reason)
    return lambda: _text(saved, shown)


def _around(gm: fx.GraphModule, known: GraphFacts, given: int | None) -> str | None:
    """What a caller of the graph alone would miss; None where it is nothing."""
    if known.role != "inference":
        return "it is one half of a training step"
    if given is not None and given != len(gm.graph.find_nodes(op="placeholder")):
        return "inputs that share memory are one input of the graph"
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if any(type(one).__name__ != "PlainTensorMeta" for one in getattr(metadata, "subclass_inp_meta", ())):
        return "inputs are tensors of a class of their own"
    return next((why for name, why in _WORK.items() if getattr(metadata, name, None)), None)


def _refuse(reason: str) -> str:
    raise CannotBeText(reason)


def _text(saved: Any, shown: str) -> str:
    alone = copy.copy(saved)
    alone.prepare_for_serialization()
    try:
        data = base64.b64encode(pickle.dumps((_versions(), alone))).decode()
    except Exception as error:  # a callable among the options that has no name, for one
        raise CannotBeText(f"{type(error).__name__}: {error}") from error
    lines = [
        f"{MARK} {__version__} and torch {torch.__version__}",
        *(f"# {line}" for line in shown.splitlines()),
    ]
    call = ["from air_backend.npugraph_ex._artifacts import kernel_of", "", f'kernel = kernel_of("{data}")']
    return "\n".join([*lines, "", *call, ""])


def _versions() -> tuple[str, str]:
    return __version__, str(torch.__version__)


def read(text: str | None, version: str) -> Any:
    """The graph in a text, lowered in this process."""
    if version != VERSION:
        raise NotACache(PLACE, f"its version is {version}, and this is {VERSION}")
    if not text or not text.startswith(MARK):
        raise NotACache(PLACE, "AIR did not write it")
    last = ast.parse(text).body[-1]
    if not (isinstance(last, ast.Assign) and isinstance(last.value, ast.Call) and last.value.args):
        raise NotACache(PLACE, "its last line is not the one that AIR wrote")
    return _loaded(ast.literal_eval(last.value.args[0]))


def _loaded(data: str) -> Any:
    versions, saved = pickle.loads(base64.b64decode(data))
    if versions != _versions():
        raise NotACache(PLACE, f"it was written by air-backend {versions[0]} with torch {versions[1]}")
    saved.post_compile()
    return saved


def kernel_of(data: str) -> Callable[..., Any]:
    """What the text calls when it is run as a program: the graph, called with its inputs one by one."""
    saved = _loaded(data)
    return lambda *inputs: saved(list(inputs))
