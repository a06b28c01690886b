"""`explain(fn, *args)`: everything AIR decided about one function, as data, text, or an interactive page.

The function is compiled by a backend of its own and called once with the arguments given; what is reported is what
happened in that call: graph breaks, notices of the configuration, every pass with its refusals, streams with their
findings, and what the executor says about itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from torch._dynamo.utils import counters

from air_backend import _records
from air_backend._backend import Backend
from air_backend._compiled_with import how_to_compile, refuse_words_of_compile
from air_backend._describe import describe
from air_backend._uncompiled import modules_uncompiled, uncompiled
from air_backend.eager_calls._running import EAGER_CALLS
from air_backend.errors import UnknownEnding
from air_backend.report import Watch, page_of, watching
from air_backend.report._breaks import Noted, breaks_since, counted_since
from air_backend.report._counts import counts_of
from air_config import CompilerConfig
from air_graph.files import write_text
from air_streams import StreamPlan

NO_GRAPH: Final = "torch made no graph of it (TORCH_LOGS=graph_breaks,dynamo says why)"
NO_LIMIT: Final = dict.fromkeys(("recompile_limit", "accumulated_recompile_limit"), 1 << 30)
"""Each explanation compiles once more what torch may have compiled for others already."""
ENDINGS: Final = (".html", ".json", ".txt")


@dataclass(frozen=True)
class Explanation:
    """The report; `data` is plain dictionaries, lists, strings and numbers."""

    data: Mapping[str, Any]
    watches: Mapping[str, Watch] = field(default_factory=dict, repr=False)
    plans: Mapping[str, StreamPlan] = field(default_factory=dict, repr=False)

    def to_json(self) -> str:
        return json.dumps(self.data, indent=2, default=str)

    def to_text(self) -> str:
        return "\n".join(_lines(self.data, 0))

    def to_html(self) -> str:
        """One page that needs nothing beside itself: a summary, then pictures to search, zoom and fold."""
        timelines = [plan.timeline(title=name) for name, plan in self.plans.items()]
        return page_of(self.data, self.watches, timelines)

    def save(self, path: str | Path) -> Path:
        """Writes the page (`.html`), the data (`.json`) or the text (`.txt`), by the ending of the name."""
        target = Path(path)
        write = {".html": self.to_html, ".json": self.to_json, ".txt": self.to_text}.get(target.suffix)
        if write is None:
            raise UnknownEnding(target.name, ENDINGS)
        return write_text(target, write(), "the report")

    def __str__(self) -> str:
        return self.to_text()


def explain(
    function: Callable[..., Any],
    *args: Any,
    compiler_config: CompilerConfig | None = None,
    dynamic: bool | None = None,
    **kwargs: Any,
) -> Explanation:
    """Compiles a function or module once more, calls it with the arguments, and reports what was decided on the way.

    `function` may be compiled already: it is then compiled with the configuration that it has (`mode`, `options` and
    `dynamic` of torch.compile, and those of `get_npu_backend`). Without one it has the default.

    Args:
        function: a function, module or method, compiled or not.
        args: what it is called with, once: what it writes is written, and random numbers are drawn.
        compiler_config: takes the place of the configuration; `CompilerConfig.preset("reduce-overhead")` is that of a
            mode, `CompilerConfig.from_options({...})` that of options.
        dynamic: as torch.compile takes it.
        kwargs: more arguments of the call.

    Returns:
        The report: `print(report)`, `report.data` for programs, `report.save("report.html")` for a page.

    Raises:
        NotAParameter: a word of torch.compile, such as `mode`, that the function does not take.

    Example:
        >>> config = CompilerConfig.preset("reduce-overhead")
        >>> report = explain(model, torch.randn(2, 4), compiler_config=config)
        >>> print(report)
    """
    refuse_words_of_compile(function, args, kwargs, "explain")
    how = how_to_compile(function, compiler_config, "explain")
    before = {id(record) for record, _ in _records.alive()}
    breaks, eager_calls = Noted(), dict(counters[EAGER_CALLS])
    function = uncompiled(function)
    backend = Backend(how.config, how.decompositions)
    compiled = torch.compile(function, backend=backend, dynamic=how.dynamic if dynamic is None else dynamic)
    with watching() as watches, torch._dynamo.config.patch(NO_LIMIT), modules_uncompiled(function):
        compiled(*args, **kwargs)
    records = [(record, run) for record, run in _records.alive() if id(record) not in before]
    name = getattr(function, "__qualname__", type(function).__name__)
    graphs = [describe(record, run) for record, run in records]
    plans = {record.name: record.plan for record, _ in records}
    happened = {
        "graph breaks": breaks_since(breaks),
        "calls run eagerly": counted_since(eager_calls, EAGER_CALLS),
    }
    if not graphs and not happened["calls run eagerly"]:
        happened["calls run eagerly"] = {NO_GRAPH: 1}
    head = {"function": name, "configuration": how.whose, "summary": counts_of(happened, graphs)}
    return Explanation({**head, **happened, "graphs": graphs}, watches, plans)


def _lines(value: Any, depth: int) -> Iterator[str]:
    """The report as indented text; empty parts are left out, and an entry of a list begins beside its dash."""
    pad = "  " * depth
    items = value.items() if isinstance(value, Mapping) else ((None, item) for item in value)
    for key, item in items:
        if key is None and isinstance(item, (Mapping, list, tuple)):
            first, *others = [*_lines(item, depth + 1)] or [f"{pad}  "]
            yield f"{pad}- {first.strip()}"
            yield from others
            continue
        label = f"{pad}{key}: " if key is not None else f"{pad}- "
        if isinstance(item, (Mapping, list, tuple)):
            if item:
                yield label.rstrip()
                yield from _lines(item, depth + 1)
        elif not (isinstance(item, str) and not item):
            yield label + f"\n{pad}  ".join(_shown(item).splitlines())


def _shown(item: Any) -> str:
    return f"{item:.3g}" if isinstance(item, float) else str(item)
