"""Chooses the passes that the settings of a graph ask for.

Passes that place values in memory act in reduce-overhead only, the others and the user's own in both modes;
run_eagerly keeps them in reduce-overhead and drops all in max-autotune.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from torch.fx import GraphModule

from air_backend import _foreign_ops
from air_config import CompilerConfig, Settings
from air_fxpasses import Pass, default_passes
from air_fxpasses.passes import ReinplaceInplaceable


def chosen(settings: Settings, example_inputs: Sequence[Any], config: CompilerConfig) -> tuple[Pass, ...]:
    """The passes for one graph, in order; none when nothing is asked for."""
    captured = settings.mode != "max-autotune"
    if settings.debug.run_eagerly and not captured:
        return ()
    if "torch_npu" in sys.modules:
        importlib.import_module("air_fxpasses.npu_ops")  # adds the fusions of its operators to the table
    passes = default_passes(
        lambda one: (captured or not one.places_values) and _is_on(one, settings),
        pre=_bound(settings.post_grad_custom_pre_pass, example_inputs, config),
        post=_bound(settings.post_grad_custom_post_pass, example_inputs, config),
    )
    if settings.air.kernels == "aten":
        return passes
    return tuple(
        replace(one, pointwise=False) if isinstance(one, ReinplaceInplaceable) else one for one in passes
    )


def _is_on(one: Pass, settings: Settings) -> bool:
    """Whether the option of a pass, where it has one, has it run."""
    if not one.option:
        return True
    switched_off = one.option.rpartition(".")[2].startswith("disable_")
    return bool(attrgetter(one.option)(settings)) != switched_off


def _bound(
    function: Callable[..., Any] | None, example_inputs: Sequence[Any], config: CompilerConfig
) -> Callable[[GraphModule], Any] | None:
    """A user's pass, `fn(gm, example_inputs, config)`, as a function of the graph alone."""
    if function is None:
        return None
    user = function

    def call(gm: GraphModule) -> Any:
        result = user(gm, example_inputs, config)
        _foreign_ops.adopt(gm)
        return result

    call.__wrapped__ = function  # type: ignore[attr-defined]  # whose place an error names
    call.__name__ = call.__qualname__ = getattr(function, "__name__", type(function).__name__)
    return call
