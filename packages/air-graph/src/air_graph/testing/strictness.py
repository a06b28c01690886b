"""How strict torch is with a custom operator that gives back its argument, for tests that depend on it.

torch warns of one in the first call of a graph, and raises where the variable `CI` is set: the same test would pass on
a desk and fail where it counts. Operators of serving engines and of torch_npu do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch
import torch._functorch.config

_SETTING: Final = "error_on_custom_op_aliasing"


@contextmanager
def results_that_are_arguments(*, refused: bool) -> Iterator[None]:
    """Within it torch raises for such an operator, or warns, whatever the environment says."""
    known = hasattr(torch._functorch.config, _SETTING)  # torch 2.11 has no such setting
    with torch._functorch.config.patch({_SETTING: refused} if known else {}):
        yield
