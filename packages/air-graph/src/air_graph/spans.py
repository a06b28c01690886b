"""What AIR does, by name, in torch's profiler: `air: replay graph_0 key (8, 128)`.

    with span(span_name("capture", "graph_0", (8, 128))):
        ...

The name is shown while `torch.profiler` records, and nothing is done otherwise. Code on the path of every call asks
`torch.autograd.profiler._is_profiler_enabled` itself, which is one read of an attribute, before it makes a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.autograd import profiler


def span_name(what: str, graph: str, key: Sequence[object] = ()) -> str:
    """The name of one kind of work on a graph, and of the sizes it is done for, where there are several."""
    return f"air: {what} {graph} key {tuple(key)}" if key else f"air: {what} {graph}"


def span(name: str) -> AbstractContextManager[Any]:
    """Shows the work inside under this name, where a profiler of torch records."""
    if not profiler._is_profiler_enabled:
        return nullcontext()
    named: AbstractContextManager[Any] = torch._C._profiler._RecordFunctionFast(name)
    return named
