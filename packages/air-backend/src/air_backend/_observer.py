"""Everything that looks at a compilation without taking part in it: trace, graph files, debug folder.

    ATen graph ─► before ─► passes ─► after ─► [Ascend IR: original ─► optimized] ─► report

Each stage goes to torch's structured trace (tlparse shows it), to the files that `debug.graph_dump` asks for, to the
folder of `TORCH_COMPILE_DEBUG=1`, and to the page of `explain`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import fx

from air_backend import _artifacts, _minifier, dump
from air_backend.report import watch_of
from air_config import CompilerConfig, Settings
from air_geir.dump import WRITERS
from air_geir.ir import Graph
from air_graph.executors import Executor


class Observer:
    """Looks at the compilation of one graph."""

    def __init__(self, name: str, number: int, folder: dump.DebugFolder | None) -> None:
        self.name = name
        self.number = number
        self.folder = folder
        self.watch = watch_of(name)

    @property
    def listing(self) -> Callable[[str, str, str], None] | None:
        """Takes the text around each pass; None where nobody reads it."""
        readers = [reader.listing for reader in (self.folder, self.watch) if reader is not None]
        if not readers:
            return None

        def tell(name: str, before: str, after: str) -> None:
            for reader in readers:
                reader(name, before, after)

        return tell

    def before(
        self, gm: fx.GraphModule, inputs: Sequence[Any], config: CompilerConfig, settings: Settings
    ) -> None:
        """The graph as AOTAutograd gave it."""
        _artifacts.graph(f"air_{self.name}_before", gm)
        dump.write_graph(gm, settings, "original", self.number)
        if self.watch is not None:
            self.watch.before(gm)
        if self.folder is not None:
            self.folder.graph("aot_graph", gm)
            self.folder.text("settings.txt", settings.table())
            self.folder.text("repro.py", _minifier.script(gm, inputs, config))

    def after(self, gm: fx.GraphModule, settings: Settings) -> None:
        """The graph as the passes left it."""
        _artifacts.graph(f"air_{self.name}_after", gm)
        dump.write_graph(gm, settings, "optimized", self.number)
        if self.watch is not None:
            self.watch.after(gm)

    def ascend_ir(self, stage: str, graph: Graph) -> None:
        """The Ascend IR graph before (`original`) and after (`optimized`) its own passes."""
        _artifacts.text(f"air_{self.name}_ge_{stage}", lambda: WRITERS["py"](graph))
        if self.folder is not None:
            self.folder.ascend_ir(stage, graph)
        if self.watch is not None:
            self.watch.ascend_ir(stage, graph)

    def done(self, report: Callable[[], Mapping[str, Any]], run: Executor) -> None:
        """What was decided, and the code that runs."""
        _artifacts.report(f"air_{self.name}_report", report)
        if self.folder is None:
            return
        self.folder.report("explain", report())
        if run.source:
            self.folder.text("output_code.py", run.source)
