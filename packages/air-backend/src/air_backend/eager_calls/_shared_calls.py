"""Calls whose arguments share memory otherwise than the graph was traced for: the graph of Dynamo runs, eagerly."""

from __future__ import annotations

from typing import Any

from torch import fx

from air_backend._result_places import at_their_places
from air_backend._shared_memory import NOT_AS_TRACED, Fitting, Sharing
from air_backend.eager_calls._running import Run, as_it_came, asks_for_an_error, running_eagerly
from air_backend.eager_calls.errors import SharedOtherwise
from air_config import CompilerConfig


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
            eager = running_eagerly(original, SharedOtherwise(refused))
        return eager(*args)

    return call
