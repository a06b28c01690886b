"""Hands graphs and reports to torch's structured trace, where tlparse and TORCH_COMPILE_DEBUG find them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from torch import fx
from torch._logging._internal import trace_structured


def text(name: str, payload: Callable[[], str], encoding: str = "string") -> None:
    """A text; made only when a trace is being written."""
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": encoding},
        payload_fn=payload,
        expect_trace_id=False,
    )


def graph(name: str, gm: fx.GraphModule) -> None:
    """The readable code of a graph, with the user's lines."""
    text(name, lambda: gm.print_readable(print_output=False, include_stride=True, include_device=True))


def report(name: str, data: Callable[[], Mapping[str, Any]]) -> None:
    """A report as JSON."""
    text(name, lambda: json.dumps(data(), default=str, indent=2), "json")
