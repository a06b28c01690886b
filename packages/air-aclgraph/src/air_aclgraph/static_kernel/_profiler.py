"""Finds an Ascend PyTorch Profiler that records operator arguments.

It calls the same dump of CANN as static kernel compilation does, and there is only one: whoever starts second
takes it from the first.  torch_npu keeps no list of its profilers, so the living objects are searched; that is
done once per compilation, never per call.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any


def recording_profiler() -> str | None:
    """A sentence about a profiler that dumps operator arguments right now; None without one."""
    for profiler in _recording_arguments():
        action = getattr(getattr(profiler, "current_action", None), "name", "RECORD")
        if action != "NONE":
            return "a torch_npu profiler with record_op_args=True is recording"
    return None


def first_step_skipped() -> int | None:
    """`skip_first` of a profiler that is switched on and records arguments; None without one."""
    for profiler in _recording_arguments():
        return int(getattr(getattr(profiler, "schedule", None), "skip_first", 0))
    return None


def _recording_arguments() -> Iterator[Any]:
    """Profilers that were started, have not been stopped, and record operator arguments."""
    module = sys.modules.get("torch_npu.profiler.profiler")
    kind = getattr(module, "profile", None)
    for found in gc.get_objects() if kind is not None else ():
        if type(found) is kind and not getattr(found, "stopped", False):
            inner = getattr(found, "prof_if", None)
            config = getattr(inner, "experimental_config", None)
            started = bool(getattr(inner, "prof_path", "")) or getattr(found, "step_rec_fn", None) is not None
            if started and getattr(config, "record_op_args", False):
                yield found
