"""Names of files that say what is in them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Final

import torch

_UNFIT: Final = re.compile(r"[^\w.\-]+")


def named(target: Any) -> str:
    """The name of an operator as part of a file name: `aten.add.Tensor`."""
    is_named = isinstance(target, (str, torch._ops.OpOverload))
    text = str(target) if is_named else getattr(target, "__name__", type(target).__name__)
    return _UNFIT.sub("_", text)


def stamp() -> str:
    """The moment in microseconds, as part of a file name that sorts by time."""
    return f"{datetime.now():%Y%m%d%H%M%S%f}"
