"""Files to look at: tensors of an eager run, tensors of a replay, graphs, tables of operators.

Each part is asked for by options of its own (`debug.data_dump`, `dump_config`, `debug.graph_dump`, `debug.fx_summary`)
and by nothing else; `TORCH_COMPILE_DEBUG=1` collects graphs and reports in torch's own folder.
"""

from __future__ import annotations

from air_backend.dump._eager import EagerDump
from air_backend.dump._graphs import readable, write_graph
from air_backend.dump._in_graph import Whole, insert_saves
from air_backend.dump._marks import data_dump, is_marked
from air_backend.dump._summary import summarize
from air_backend.dump._tree import DebugFolder, debug_folder

__all__ = [
    "DebugFolder",
    "EagerDump",
    "Whole",
    "data_dump",
    "debug_folder",
    "insert_saves",
    "is_marked",
    "readable",
    "summarize",
    "write_graph",
]
