"""Modes of torch, which Dynamo traces into a graph: the graph runs without them.

    with torch.device("npu"):       `set_default_device` enters such a mode for good
        step(x)

Dynamo leaves the modes on while it calls a graph, and each operator would be given to them a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch._dynamo.utils import clear_torch_function_mode_stack, set_torch_function_mode_stack
from torch.overrides import _get_current_function_mode_stack

#: Whether this thread is inside such a mode.
has_function_modes: Final[Callable[[], bool]] = torch._C._is_torch_function_mode_enabled


@contextmanager
def without_function_modes() -> Iterator[None]:
    """Leaves all of them, and enters them again at the end."""
    modes = _get_current_function_mode_stack()
    try:
        clear_torch_function_mode_stack()
        yield
    finally:
        set_torch_function_mode_stack(modes)


def outside_modes(run: Callable[..., Any]) -> Callable[..., Any]:
    """`run` outside all of them."""

    def call(*args: Any) -> Any:
        if not has_function_modes():
            return run(*args)
        with without_function_modes():
            return run(*args)

    return call


def without_modes(run: Callable[[Any], Any], args: Sequence[Any]) -> Any:
    """A call without gradients, casts and modes of functions: what they do is in the graph, or is not wanted."""
    if torch._C._is_any_autocast_enabled() or has_function_modes():
        with torch.no_grad(), torch._C._DisableAutocast(), without_function_modes():
            return run(args)
    if not torch.is_grad_enabled():
        return run(args)
    try:
        torch._C._set_grad_enabled(False)  # inside: an interrupt that comes right after it finds the way back
        return run(args)
    finally:
        torch._C._set_grad_enabled(True)
