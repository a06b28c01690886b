"""A graph of Dynamo as it came: operator by operator, for calls that what was compiled of it does not serve."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from torch import fx
from torch._dynamo.utils import counters

from air_backend._pieces import untouched
from air_backend._result_places import at_their_places
from air_backend._shared_memory import Fitting, Sharing, Traced
from air_backend.errors import SharedOtherwise, SharingRefused
from air_config import CompilerConfig
from air_graph import SourceLine, source_of, warn_at

#: Where torch makes bases of arguments that share memory, and refuses some.
_OF_TORCH: Final = ("pre_compile", "AOTSyntheticBaseWrapper")
NOT_AS_TRACED: Final = "these overlap otherwise than the graph was traced for"


@dataclass(frozen=True)
class Original:
    """What runs a graph eagerly, the names of its arguments in the program, and the line that uses each first."""

    run: Callable[..., Any]
    names: tuple[str, ...]
    lines: tuple[SourceLine | None, ...]

    @classmethod
    def of(cls, gm: fx.GraphModule) -> Original:
        """A copy without what only compilers need."""
        places = gm.graph.find_nodes(op="placeholder")
        lines = tuple(next(filter(None, map(source_of, node.users)), None) for node in places)
        copy = untouched(gm)
        for node in copy.graph.nodes:
            node.meta = {}
        return cls(copy, tuple(map(_name, places)), lines)

    def warn(self, places: Sequence[int], reason: str) -> None:
        """Says that the graph runs eagerly for these arguments, at a line of the user's that uses one."""
        line = next(filter(None, (self.lines[place] for place in places)), None)
        names = tuple(self.names[place] for place in places)
        warn_at(line, SharedOtherwise(names, reason, None if line is None else str(line)), "air_backend")


def _name(node: fx.Node) -> str:
    """As the program calls an argument, where Dynamo has noted it."""
    name = getattr(getattr(node.meta.get("grapharg"), "source", None), "name", node.name)
    return str(name() if callable(name) else name)  # a method up to torch 2.11


def shared_as_traced(
    compiled: Callable[..., Any],
    gm: fx.GraphModule | None,
    sharing: Sharing,
    config: CompilerConfig,
) -> Callable[..., Any]:
    """`compiled`, for arguments that share memory as those of the example; without `gm` others are refused."""
    compiled = at_their_places(compiled, sharing.placed)
    fits = Fitting(sharing.traced, sharing.written)
    if not fits.needed:
        return compiled
    original = None if gm is None or asks_for_an_error(config) else Original.of(gm)
    told = False

    def call(*args: Any) -> Any:
        return compiled(*args) if fits(args) else otherwise(args)

    def otherwise(args: tuple[Any, ...]) -> Any:
        nonlocal told
        places = fits.difference(args)
        if original is None:
            raise SharingRefused(places)
        if not told:
            told = True
            original.warn(places, NOT_AS_TRACED)
        counters["air"]["calls run eagerly"] += 1
        return original.run(*args)

    return call


def asks_for_an_error(config: CompilerConfig) -> bool:
    """Whether what cannot be compiled is to be an error, and not to run eagerly."""
    wanted = config.air.unsupported if config.mode == "max-autotune" else config.air.uncapturable
    return bool(wanted == "error")


def is_about_sharing(error: Exception) -> bool:
    """Whether arguments of the example were refused for the way in which they share memory, by torch or here."""
    if isinstance(error, SharingRefused):
        return True
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    where = ((frame.f_code.co_name, type(frame.f_locals.get("self")).__name__) for frame in frames)
    return _OF_TORCH in where


def always_eager(gm: fx.GraphModule, traced: Traced, error: Exception) -> Callable[..., Any]:
    """The graph itself, where it cannot be traced for arguments that share memory as they do."""
    original = Original.of(gm)
    if isinstance(error, SharingRefused):
        original.warn(error.arguments, error.reason)
    else:
        places = traced.overlapping or range(traced.count)
        original.warn(places, f"these overlap, and torch cannot trace it: {error}")
    return original.run
