"""Chooses the passes that the settings of a graph ask for.

The reinplace passes, cat elimination and in-place recovery act in reduce-overhead only; no-op removal, fusion and the
user's own passes act in both modes; run_eagerly keeps them in reduce-overhead and drops all in max-autotune.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from air_config import CompilerConfig, Settings
from air_fxpasses import Pass, default_passes


def chosen(settings: Settings, example_inputs: Sequence[Any], config: CompilerConfig) -> tuple[Pass, ...]:
    """The passes for one graph, in order; none when nothing is asked for."""
    captured = settings.mode != "max-autotune"
    if settings.debug.run_eagerly and not captured:
        return ()
    switches = settings.debug.aclgraph
    experimental = settings.experimental_config
    return default_passes(
        reinplace_inplaceable=captured and not switches.disable_reinplace_inplaceable_ops_pass,
        reinplace_input_mutated=captured and not switches.disable_reinplace_input_mutated_ops_pass,
        remove_noop=experimental.remove_noop_ops,
        remove_cat=captured and switches.remove_cat_ops,
        fuse_patterns=experimental.pattern_fusion_pass,
        view_inplace=captured and settings.air.view_inplace,
        pre=_bound(settings.post_grad_custom_pre_pass, example_inputs, config),
        post=_bound(settings.post_grad_custom_post_pass, example_inputs, config),
    )


def _bound(
    function: Callable[..., Any] | None, example_inputs: Sequence[Any], config: CompilerConfig
) -> Callable[[GraphModule], Any] | None:
    """A user's pass, `fn(gm, example_inputs, config)`, as a function of the graph alone."""
    if function is None:
        return None
    user = function

    def call(gm: GraphModule) -> Any:
        return user(gm, example_inputs, config)

    call.__name__ = call.__qualname__ = getattr(function, "__name__", type(function).__name__)
    return call
