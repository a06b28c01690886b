"""A backward half as autograd calls it: with gradients of other forms than the graph was made for, and at any time.

Zero that nobody computed has no memory, and is given some. Many gradients at once are tensors with a hidden dimension,
which only torch's own operators know: the graph runs eagerly on them, laid out as in the trace. It runs eagerly as well
where `torch._dynamo.reset()` closed what was compiled between a forward and its backward, and inside a
`TorchDispatchMode`, which sees each operator of a backward: Dynamo keeps compiled code from such a mode, but a forward
may have run outside.

Eager computes a backward under the autocast of the backward call. One that is active here was not active for the
forward (AOTAutograd switches it off if it was), so the graph holds no casts for it: where it would cast anything, the
graph runs eagerly. A capture would keep the casts of its first call for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from unittest import mock

import torch
from torch import Tensor, fx
from torch._C._functorch import is_batchedtensor, is_legacy_batchedtensor
from torch._dynamo.utils import counters
from torch._functorch._aot_autograd import runtime_wrappers
from torch._ops import HigherOrderOperator, OpOverload

from air_backend.eager_calls._running import EAGER_CALLS, Run, as_it_came, asks_for_an_error, eager_or_refused
from air_backend.eager_calls.errors import CastRefused, GradientsBatched, GradientsCast, GradientsRefused
from air_config import CompilerConfig
from air_graph import start_of
from air_graph.executors import boxed

#: A plain gradient is none of these.
_IS_BATCHED: Final = (is_legacy_batchedtensor, is_batchedtensor)
_LAYS_OUT: Final = runtime_wrappers.coerce_to_expected_memory_format
_CLOSED: Final = "a reset came between a forward and its backward"
_WATCHED: Final = "a backward ran inside a TorchDispatchMode, which sees its operators"
#: The dispatch keys under which operators that autocast casts have a kernel: of the CPU, CUDA devices and NPUs.
_CASTING: Final = ("AutocastCPU", "AutocastCUDA", "AutocastPrivateUse1")

#: How many modes that see each operator this thread is inside of.
modes_inside: Final[Callable[[], int]] = torch._C._len_torch_dispatch_stack


def is_batched(value: Any) -> bool:
    """Whether a gradient is many at once."""
    return isinstance(value, Tensor) and any(asks(value) for asks in _IS_BATCHED)


def many_laid_out(backward: Run) -> Run:
    """The backward of a compiled function, to which torch gives many gradients in the layout of the trace.

    torch copies a gradient that is laid out otherwise into memory for one.
    """

    def call(node: Any, *given: Any) -> Any:
        gradients = given[0] if len(given) == 1 and isinstance(given[0], list) else given
        if not any(map(is_batched, gradients)):
            return backward(node, *given)
        with mock.patch.object(runtime_wrappers, _LAYS_OUT.__name__, _laid_out):
            return backward(node, *given)

    return call


def _laid_out(gradient: Tensor, wanted: Any) -> Tensor:
    is_there = wanted.memory_format is not None or gradient.stride() == wanted.stride
    if is_there or not is_batched(gradient):
        return _LAYS_OUT(gradient, wanted)
    return gradient.new_empty_strided(wanted.size, wanted.stride).copy_(gradient)


class BackwardHalf:
    """The graph as it came, from before it is compiled on."""

    def __init__(self, gm: fx.GraphModule, tangents: Sequence[int], config: CompilerConfig) -> None:
        self._graph = as_it_came(gm)
        self._tangents = tangents
        original = None if asks_for_an_error(config) else self._graph
        start = start_of(gm.graph)
        self._many = eager_or_refused(original, start, GradientsBatched, GradientsRefused)
        self._casting = eager_or_refused(original, start, GradientsCast, CastRefused)
        self._is_cast = any(map(_is_cast, gm.graph.nodes))

    def calling(self, run: Callable[[list[Any]], Any], is_closed: Callable[[], bool]) -> Run:
        """What autograd calls; `run` is the compiled graph."""
        casts: Callable[[], bool] = torch._C._is_any_autocast_enabled if self._is_cast else bool

        def call(args: list[Any]) -> Any:
            if (cause := _CLOSED if is_closed() else _WATCHED if modes_inside() else None) is not None:
                counters[EAGER_CALLS][cause] += 1
                return self._graph(*args)
            if casts():
                return self._casting(*args)
            for at in self._tangents:
                gradient = args[at]
                if not isinstance(gradient, Tensor):
                    continue
                if is_batched(gradient):
                    return self._many(*args)
                if gradient._is_zerotensor():
                    args[at] = gradient.new_zeros(gradient.shape)
            return run(args)

        return boxed(call)


def _is_cast(node: fx.Node) -> bool:
    """Whether autocast changes what a node computes; a graph inside a node may hold anything."""
    target = node.target
    if isinstance(target, OpOverload):
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        return any(has_kernel(target.name(), key) for key in _CASTING)
    return isinstance(target, HigherOrderOperator)
