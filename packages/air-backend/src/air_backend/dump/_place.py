"""Where files go: a folder for each rank, and names that say what is in them."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import torch

from air_graph import files, ranks

_UNFIT: Final = re.compile(r"[^\w.\-]+")


def rank_folder(root: str | Path | None) -> Path:
    """The folder of this rank below `root`; made when it is not there. None is the working directory."""
    rank, size = ranks.rank_and_size()
    folder = Path(root or ".") / f"worldsize{size}_global_rank{rank}"
    return files.folder(folder, "the folder of dumps")


def named(target: Any) -> str:
    """The name of an operator as part of a file name: `aten.add.Tensor`."""
    is_named = isinstance(target, (str, torch._ops.OpOverload))
    text = str(target) if is_named else getattr(target, "__name__", type(target).__name__)
    return _UNFIT.sub("_", text)


def stamp() -> str:
    """The moment in microseconds, as part of a file name that sorts by time."""
    return f"{datetime.now():%Y%m%d%H%M%S%f}"
