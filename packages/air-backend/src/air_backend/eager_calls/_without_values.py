"""The call that torch makes of each part of a graph that it splits for DDP, while it still compiles.

DDP's optimizer compiles a part for each bucket of gradients, and calls each once with fake tensors to learn the strides
of its results, which the next part gets. These have no memory: nothing about it can be asked, and AOTAutograd answers
alone.
"""

from __future__ import annotations

from typing import Any

from torch._guards import TracingContext

from air_backend.eager_calls._running import Run


def first_without_values(traced: Run, compiled: Run) -> Run:
    """`compiled`, whose first call goes to `traced` where torch makes that one with fake tensors."""
    context = TracingContext.try_get()
    if context is None or not context.fakify_first_call:
        return compiled
    run = traced

    def call(*args: Any) -> Any:
        nonlocal run
        now, run = run, compiled
        return now(*args)

    return call
