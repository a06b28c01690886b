"""Calls whose arguments share memory otherwise than the graph was traced for: the graph of Dynamo runs, eagerly."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, Final

from torch import fx
from torch._dynamo.exc import TorchDynamoException
from torch._dynamo.utils import counters

from air_backend._compilation import Compilation
from air_backend._pieces import untouched
from air_backend._result_places import at_their_places
from air_backend._shared_memory import NOT_AS_TRACED, Fitting, Sharing
from air_backend.errors import SharedOtherwise, SharingRefused
from air_config import CompilerConfig
from air_config.errors import AirError
from air_graph import warn_at

Run = Callable[..., Any]

#: Where torch makes bases of arguments that share memory, and refuses some.
_OF_TORCH: Final = ("pre_compile", "AOTSyntheticBaseWrapper")
#: The group of torch's counters that says which calls ran eagerly, and why.
EAGER_CALLS: Final = "air: calls run eagerly"


def shared_as_traced(
    compiled: Run, gm: fx.GraphModule | None, sharing: Sharing, config: CompilerConfig
) -> Run:
    """`compiled`, for arguments that share memory as those of the example; without `gm` others are refused."""
    compiled = at_their_places(compiled, sharing.placed)
    fits = Fitting(sharing.traced, sharing.written)
    if not fits.needed:
        return compiled
    original = None if gm is None or asks_for_an_error(config) else as_it_came(gm)
    eager: Run | None = None

    def call(*args: Any) -> Any:
        return compiled(*args) if fits(args) else otherwise(args)

    def otherwise(args: tuple[Any, ...]) -> Any:
        nonlocal eager
        if eager is None:
            refused = sharing.refusal(fits.difference(args), NOT_AS_TRACED)
            if original is None:
                raise refused
            eager = running_eagerly(original, refused)
        return eager(*args)

    return call


def always_eager(gm: fx.GraphModule, sharing: Sharing, error: Exception) -> Run:
    """The graph itself, where it cannot be traced for arguments that share memory as they do."""
    if not isinstance(error, SharingRefused):
        traced = sharing.traced
        places = traced.overlapping or tuple(range(traced.count))
        error = sharing.refusal(places, f"these overlap, and torch cannot trace it: {_first_line(error)}")
    return running_eagerly(as_it_came(gm), error)


def running_eagerly(run: Run, refused: SharingRefused) -> Run:
    """`run`, whose calls are counted; says why they are not compiled, at a line of the user's."""
    told = SharedOtherwise(refused.arguments, refused.reason, refused.where)
    warn_at(refused.where, told, "air_backend")
    reason = str(told)

    def eager(*args: Any, **kwargs: Any) -> Any:
        counters[EAGER_CALLS][reason] += 1
        return run(*args, **kwargs)

    return eager


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def as_it_came(gm: fx.GraphModule) -> fx.GraphModule:
    """A copy of a graph without what only compilers need."""
    copy = untouched(gm)
    for node in copy.graph.nodes:
        node.meta = {}
    return copy


def asks_for_an_error(config: CompilerConfig) -> bool:
    """Whether what cannot be compiled is to be an error, and not to run eagerly."""
    wanted = config.air.unsupported if config.mode == "max-autotune" else config.air.uncapturable
    return bool(wanted == "error")


def is_about_sharing(error: Exception, sharing: Sharing) -> bool:
    """Whether the example was refused for the way in which its arguments share memory, by torch or here.

    Where some overlap, that is any error of torch's own between Dynamo, which has traced the program, and AIR.
    """
    if isinstance(error, SharingRefused):
        return True
    if isinstance(error, (AirError, TorchDynamoException)):
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if any(frame.f_code is Compilation.compile.__code__ for frame in frames):
        return False
    where = ((frame.f_code.co_name, type(frame.f_locals.get("self")).__name__) for frame in frames)
    return bool(sharing.traced.overlapping) or _OF_TORCH in where
