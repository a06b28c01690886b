"""Decides whether a compilation is kept for other processes, before what keeps it (and Inductor) is imported."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import torch
from torch import fx
from torch._dynamo import config as dynamo_config

from air_backend import _minifier
from air_backend._native_objects import being_written
from air_backend.errors import CannotSave
from air_config import CompilerConfig
from air_config.trust import why_untrusted
from air_geir.gears import find_gears

log = logging.getLogger(__name__)

Keeping = Literal["no", "cache", "file"]

NOT_KEPT: Final = "air.cache.save: this graph is compiled and not kept: %s"
OBJECTS_OF_THE_PROCESS: Final = "get_external_object_by_index"
STREAMS: Final = "streams"
ADVICE: Final = "(those with a tag can be kept, and cache_compile keeps all of them)"


def keeping(gm: fx.GraphModule, config: CompilerConfig, decompositions: Mapping[Any, Any]) -> Keeping:
    """Where the result goes: into a file where `aot_compile` asks for it, into torch's cache by `air.cache.save`."""
    to_file: bool = torch._functorch.config.bypass_autograd_cache_key  # which only aot_compile sets
    if not to_file and not config.layered("air.cache.save"):
        return "no"
    reason = _obstacle(gm, decompositions, to_file) or (None if to_file else _distrust())
    if reason is None:
        return "file" if to_file else "cache"
    if to_file:
        raise CannotSave(reason)
    log.warning(NOT_KEPT, reason)
    return "no"


def _obstacle(gm: fx.GraphModule, decompositions: Mapping[Any, Any], to_file: bool) -> str | None:
    """Why another process could not compile from what is kept."""
    if decompositions and not to_file:
        return "the graph depends on custom_decompositions, functions that no key can hold"
    if to_file and (switched_off := no_caches()) is not None:
        return switched_off
    if to_file and _holds_no_parameters(gm):
        return "files of torch 2.11 hold no parameters where torch._dynamo.config.inline_inbuilt_nn_modules is off"
    if _minifier.is_watching():
        return "torch's minifier (repro_after) takes the place of the compiler"
    seen = [node.meta.get("example_value") for node in gm.graph.find_nodes(op="placeholder")]
    if not to_file and find_gears(seen):
        return "gears are declared on an input, and torch's cache does not hold their conditions"
    for part in gm.modules():
        if isinstance(part, fx.GraphModule) and not (part is gm and being_written.get()):
            for node in part.graph.nodes:
                if node.op == "call_function" and _is_of_the_process(node.target):
                    return f"{node.name} uses a stream or event object of this process {ADVICE}"
    return None


def no_caches() -> str | None:
    """Why torch makes no entry of its cache, which is what a file holds; None where it does."""
    if torch.compiler.config.force_disable_caches:
        return "torch's caches are switched off (TORCHINDUCTOR_FORCE_DISABLE_CACHES)"
    if not torch._functorch.config.enable_autograd_cache:
        return "torch's cache of AOTAutograd is switched off (TORCHINDUCTOR_AUTOGRAD_CACHE)"
    return None


def _holds_no_parameters(gm: fx.GraphModule) -> bool:
    """Whether a file would lack parameters that the graph has as its own, not as inputs."""
    own = next(gm.parameters(), None) is not None or next(gm.buffers(), None) is not None
    return own and torch.__version__ < "2.12" and not dynamo_config.inline_inbuilt_nn_modules


def _distrust() -> str | None:
    """Why nothing is read from torch's cache folder: torch unpickles what it finds there."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir  # brings parts of Inductor

    folder = Path(cache_dir())
    while (
        not folder.exists() and folder != folder.parent
    ):  # torch makes it, with the rights of any new folder
        folder = folder.parent
    try:
        refusal = why_untrusted(folder)
    except OSError as error:
        return f"{folder} cannot be looked at: {error.strerror}"
    if refusal is None:
        return None
    return f"{refusal.part} {refusal.reason}, and what is read from {cache_dir()} runs; set TORCHINDUCTOR_CACHE_DIR"


def _is_of_the_process(target: Any) -> bool:
    namespace = (
        getattr(target, "namespace", None)
        or str(getattr(target, "_qualified_op_name", "")).partition("::")[0]
    )
    return namespace == STREAMS or getattr(target, "__name__", "") == OBJECTS_OF_THE_PROCESS
