"""Graphs of Dynamo's that torch cannot make functional run eagerly, as they came.

Dynamo has traced such a program, and eager runs it. What AOTAutograd refuses then, or fails at, is no fault of the
program's: a write to a permuted view whose example value torch lays out otherwise than the view, arguments that share
memory in ways it has no base for. Errors of AIR, of the user's decompositions and of the user's operators are raised.
"""

from __future__ import annotations

import sys
import traceback
from types import FrameType
from typing import Final

import torch
from torch import fx
from torch._dynamo.exc import TorchDynamoException

from air_backend._compilation import Compilation
from air_backend._shared_memory import Sharing
from air_backend.eager_calls._advice import advice_for
from air_backend.eager_calls._running import Run, as_it_came, running_eagerly
from air_backend.eager_calls.errors import BackwardLost, NotTraced, RunsEagerly, SharedOtherwise
from air_backend.errors import BackwardRefused, SharingRefused
from air_config.errors import AirError
from air_graph import SourceLine, source_of, start_of
from air_graph.errors import first_line

#: Where torch makes bases of arguments that share memory, and refuses some.
_BASES: Final = ("pre_compile", "AOTSyntheticBaseWrapper")
_TORCHS: Final = frozenset({"torch", "torch_npu", "functorch", "sympy", *sys.stdlib_module_names})


def eager_instead(gm: fx.GraphModule, sharing: Sharing, error: Exception) -> Run | None:
    """The graph itself, where it is for sharing or torch's own limits that it is not compiled; None where not."""
    if isinstance(error, SharingRefused):
        told: RunsEagerly = SharedOtherwise(error)
    elif isinstance(error, BackwardRefused):
        told = BackwardLost(error)
    elif not is_torchs_own(error) or torch._dynamo.config.repro_after is not None:
        return None  # the minifier wants to see torch's errors
    elif sharing.traced.overlapping or _is_about_bases(error):
        told = _about_sharing(sharing, error)
    else:
        line = _line_of(error)
        place = line or start_of(gm.graph)
        told = NotTraced(first_line(error), place, advice_for(error), is_start=line is None)
    return running_eagerly(as_it_came(gm), told)


def say_where(error: Exception) -> None:
    """Notes in a refusal of what torch traces the line that torch was at."""
    if isinstance(error, BackwardRefused) and error.where is None:
        error.where = _line_of(error)


def is_torchs_own(error: Exception) -> bool:
    """Whether it was raised by torch between Dynamo and AIR's compiler, and not in code of the user's."""
    if isinstance(error, (AirError, TorchDynamoException)):
        return False
    frames = _frames(error)
    if any(frame.f_code is Compilation.compile.__code__ for frame in frames):
        return False
    roots = [_root(frame) for frame in frames]
    return roots[-1] in _TORCHS and all(root in _TORCHS or root.startswith("air_") for root in roots)


def _root(frame: FrameType) -> str:
    """The package of a frame; graphs, whose code is generated, are torch's."""
    if frame.f_code.co_filename.startswith("<"):
        return "torch"
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _is_about_bases(error: Exception) -> bool:
    found = ((frame.f_code.co_name, type(frame.f_locals.get("self")).__name__) for frame in _frames(error))
    return _BASES in found


def _about_sharing(sharing: Sharing, error: Exception) -> SharedOtherwise:
    traced = sharing.traced
    places = traced.overlapping or tuple(range(traced.count))
    return SharedOtherwise(
        sharing.refusal(places, f"these overlap, and torch cannot trace it: {first_line(error)}")
    )


def _line_of(error: Exception) -> SourceLine | None:
    """The line of the node that torch was at."""
    nodes = [node for frame in _frames(error) if isinstance(node := frame.f_locals.get("n"), fx.Node)]
    return source_of(nodes[-1]) if nodes else None


def _frames(error: Exception) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
