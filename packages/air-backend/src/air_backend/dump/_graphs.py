"""`debug.graph_dump.type = "py"` where the graph is captured: the FX graph as Python, before and after the passes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from torch import fx

from air_config import Settings
from air_geir.dump import dump_path
from air_graph import files

log = logging.getLogger(__name__)


def readable(gm: fx.GraphModule) -> str:
    """The graph as Python that can be parsed: shapes, strides and devices as annotations, the user's lines above."""
    text = str(gm.print_readable(print_output=False, include_stride=True, include_device=True))
    return text.replace("class <lambda>(", "class GraphModule(", 1)


def write_graph(
    gm: fx.GraphModule, settings: Settings, stage: Literal["original", "optimized"], number: int
) -> None:
    """Writes the graph where the settings ask for it; Ascend IR graphs are written by who makes them."""
    wanted = settings.debug.graph_dump
    if wanted.type is None or settings.mode == "max-autotune":
        return
    folder = Path(wanted.path or ".")
    files.folder(folder, "the folder of graphs")
    path = dump_path(folder, stage, wanted.type, number=number)
    files.write_text(path, readable(gm), "the graph")
    log.info("%s graph written to %s", stage, path)
