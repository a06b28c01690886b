"""Calls inside a level of forward-mode AD: a graph computes values and no tangents, so the program runs eagerly.

Dynamo hands such calls to a graph that it traced outside. Values come out right, and without their tangents.
"""

from __future__ import annotations

from typing import Any

from torch import fx

from air_backend._eager_calls import Run, as_it_came, asks_for_an_error, running_eagerly
from air_backend.errors import TangentsLost, TangentsRefused
from air_config import CompilerConfig
from air_graph import start_of


def with_tangents(gm: fx.GraphModule | None, config: CompilerConfig) -> Run:
    """What is called then; without `gm`, or where an error is asked for, it raises."""
    refused = gm is None or asks_for_an_error(config)
    original = None if gm is None or refused else as_it_came(gm)
    line = None if gm is None else start_of(gm.graph)
    eager: Run | None = None

    def call(*args: Any) -> Any:
        nonlocal eager
        if original is None:
            raise TangentsRefused(line)
        if eager is None:
            eager = running_eagerly(original, TangentsLost(line))
        return eager(*args)

    return call
