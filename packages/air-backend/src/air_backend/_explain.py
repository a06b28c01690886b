"""`explain(fn, *args)`: everything AIR decided about one function, as data, text, or one HTML page.

The function is compiled by a backend of its own and called once with the arguments given; what is reported is what
happened in that call: graph breaks, notices of the configuration, every pass with its refusals, streams with their
findings, and what the executor says about itself.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.utils import counters

from air_backend import _records
from air_backend._backend import Backend
from air_backend._describe import describe
from air_config import CompilerConfig


@dataclass(frozen=True)
class Explanation:
    """The report; `data` is plain dictionaries, lists, strings and numbers."""

    data: Mapping[str, Any]

    def to_json(self) -> str:
        return json.dumps(self.data, indent=2, default=str)

    def to_text(self) -> str:
        return "\n".join(_lines(self.data, 0))

    def to_html(self) -> str:
        """One page that needs nothing beside itself; each graph can be folded."""
        return PAGE.format(title=html.escape(str(self.data["function"])), body=_html(self.data))

    def __str__(self) -> str:
        return self.to_text()


def explain(
    function: Callable[..., Any],
    *args: Any,
    compiler_config: CompilerConfig | None = None,
    dynamic: bool | None = None,
    **kwargs: Any,
) -> Explanation:
    """Compiles `function`, calls it once with the arguments, and reports what was decided on the way."""
    before = {id(record) for record, _ in _records.alive()}
    breaks = dict(counters["graph_break"])
    compiled = torch.compile(function, backend=Backend(compiler_config), dynamic=dynamic)
    compiled(*args, **kwargs)
    records = [(record, run) for record, run in _records.alive() if id(record) not in before]
    new_breaks = {
        reason: count - breaks.get(reason, 0)
        for reason, count in counters["graph_break"].items()
        if count > breaks.get(reason, 0)
    }
    name = getattr(function, "__qualname__", type(function).__name__)
    graphs = [describe(record, run) for record, run in records]
    return Explanation({"function": name, "graph breaks": new_breaks, "graphs": graphs})


def _lines(value: Any, depth: int) -> Iterator[str]:
    """The report as indented text; empty parts are left out."""
    pad = "  " * depth
    items = value.items() if isinstance(value, Mapping) else ((None, item) for item in value)
    for key, item in items:
        label = f"{pad}{key}: " if key is not None else f"{pad}- "
        if isinstance(item, (Mapping, list, tuple)):
            if item:
                yield label.rstrip()
                yield from _lines(item, depth + 1)
        elif not (isinstance(item, str) and not item):
            yield label + f"\n{pad}  ".join(_shown(item).splitlines())


def _shown(item: Any) -> str:
    return f"{item:.3g}" if isinstance(item, float) else str(item)


def _html(value: Any) -> str:
    if isinstance(value, Mapping):
        return "".join(_fold(str(key), item) for key, item in value.items() if item not in ({}, [], (), ""))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "<ul>" + "".join(f"<li>{_html(item)}</li>" for item in value) + "</ul>"
    return f"<pre>{html.escape(_shown(value))}</pre>"


def _fold(key: str, item: Any) -> str:
    if isinstance(item, Mapping) or (isinstance(item, Sequence) and not isinstance(item, str)):
        return f"<details open><summary>{html.escape(key)}</summary>{_html(item)}</details>"
    return f"<div><b>{html.escape(key)}</b> {html.escape(_shown(item))}</div>"


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>AIR: {title}</title><style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2em; max-width: 80em }}
details {{ margin-left: 1em }} summary {{ font-weight: 600; cursor: pointer }}
div, ul {{ margin-left: 1em }} pre {{ margin: 0; white-space: pre-wrap }}
</style></head><body><h1>{title}</h1>{body}</body></html>
"""
