"""Hands graphs and reports to torch's structured trace, where tlparse and TORCH_COMPILE_DEBUG find them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from torch import fx
from torch._logging._internal import trace_structured


def _artifact(name: str, encoding: str, text: str) -> None:
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": encoding},
        payload_fn=lambda: text,
        expect_trace_id=False,
    )


def graph(name: str, gm: fx.GraphModule) -> None:
    """The readable code of a graph, with the user's lines; made only when a trace is being written."""
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": "string"},
        payload_fn=lambda: gm.print_readable(print_output=False, include_stride=True, include_device=True),
        expect_trace_id=False,
    )


def report(name: str, data: Mapping[str, Any]) -> None:
    """A report as JSON."""
    _artifact(name, "json", json.dumps(data, default=str, indent=2))
