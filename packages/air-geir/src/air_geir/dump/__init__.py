"""Graphs to look at: txt, pbtxt (for Netron and TensorBoard), py, html for any size, and svg for small ones."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

from air_config import variables
from air_geir.dump._drawing import to_svg
from air_geir.dump._page import pictures_of, to_html
from air_geir.dump._text import to_pbtxt, to_py, to_txt
from air_geir.errors import OptionError
from air_geir.ir import Graph
from air_graph.files import folder, write_text

WRITERS: Mapping[str, Callable[[Graph], str]] = {
    "txt": to_txt,
    "pbtxt": to_pbtxt,
    "py": to_py,
    "svg": to_svg,
    "html": to_html,
}
"""Type of a dump -> what writes it."""

_serial = count(1)


def dump(graph: Graph, path: str | Path) -> Path:
    """Write the graph; the ending of the path says how. The folder is made when it is missing."""
    target = Path(path)
    writer = WRITERS.get(target.suffix.lstrip("."))
    if writer is None:
        raise OptionError(f"{target.name} has no known ending", advice=f"one of .{', .'.join(WRITERS)}")
    folder(target.parent, "the folder of graphs")
    return write_text(target, writer(graph), "the graph")


def dump_path(folder: str | Path, stage: str, kind: str, *, number: int | None = None) -> Path:
    """A file name that no other graph, rank, process or moment shares."""
    rank = variables.number("RANK", 0)
    which = next(_serial) if number is None else number
    stamp = time.strftime("%Y%m%d%H%M%S") + f"{time.time_ns() // 1_000_000 % 1000:03d}"
    return Path(folder) / f"dynamo_{stage}_graph_{which}_rank_{rank}_pid_{os.getpid()}_ts_{stamp}.{kind}"


__all__ = ["WRITERS", "dump", "dump_path", "pictures_of", "to_html", "to_pbtxt", "to_py", "to_svg", "to_txt"]
