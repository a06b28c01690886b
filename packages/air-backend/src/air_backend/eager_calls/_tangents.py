"""Calls inside a level of forward-mode AD: a graph computes values and no tangents, so the program runs eagerly.

Dynamo hands such calls to a graph that it traced outside. Values come out right, and without their tangents.
"""

from __future__ import annotations

from torch import fx

from air_backend.eager_calls._running import Run, as_it_came, asks_for_an_error, eager_or_refused
from air_backend.eager_calls.errors import TangentsLost, TangentsRefused
from air_config import CompilerConfig
from air_graph import start_of


def with_tangents(gm: fx.GraphModule | None, config: CompilerConfig) -> Run:
    """What is called then; without `gm`, or where an error is asked for, it raises."""
    if gm is None:
        return eager_or_refused(None, None, TangentsLost, TangentsRefused)
    original = None if asks_for_an_error(config) else as_it_came(gm)
    return eager_or_refused(original, start_of(gm.graph), TangentsLost, TangentsRefused)
