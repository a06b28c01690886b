"""Gradients as autograd may hand them to a backward half: without memory, or many at once.

Zero that nobody computed has no memory. Many gradients at once are tensors with a hidden dimension, which only torch's
own operators know: the graph runs eagerly on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from torch import Tensor, fx
from torch._C._functorch import is_batchedtensor, is_legacy_batchedtensor

from air_backend.eager_calls._running import Run, eager_or_refused
from air_backend.eager_calls.errors import GradientsBatched, GradientsRefused
from air_config import CompilerConfig
from air_graph.executors import boxed

#: A plain gradient is none of these.
_IS_BATCHED: Final = (is_legacy_batchedtensor, is_batchedtensor)


def many_at_once(gm: fx.GraphModule, config: CompilerConfig) -> Run:
    """What is called for many gradients at once; where an error is asked for, it raises."""
    return eager_or_refused(gm, config, GradientsBatched, GradientsRefused)


def of_one_gradient(
    run: Callable[[list[Any]], Any], tangents: Sequence[int], many: Run
) -> Callable[[list[Any]], Any]:
    """A backward half that is given gradients at some places; `many` is called for many at once."""

    def call(args: list[Any]) -> Any:
        for at in tangents:
            gradient = args[at]
            if not isinstance(gradient, Tensor):
                continue
            if any(is_batched(gradient) for is_batched in _IS_BATCHED):
                return many(*args)
            if gradient._is_zerotensor():
                args[at] = gradient.new_zeros(gradient.shape)
        return run(args)

    return boxed(call)
