"""Gradients of gradients: the forward runs once more, eagerly, and autograd differentiates that.

    (slope,) = torch.autograd.grad(step(x).sum(), x, create_graph=True)
    slope.pow(2).sum().backward()

What AOTAutograd makes cannot be differentiated twice. When autograd asks for a gradient that can be, the arguments of
the forward are mostly still there: the parameters, and whatever the gradient is for. They are remembered weakly, so
nothing lives longer than it would. Where one is gone, or was written since, or where the forward writes or draws random
numbers, the second derivative is an error.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, fx
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import TracingContext
from torch._ops import OpOverload
from torch.autograd.graph import get_gradient_edge
from torch.nn import Parameter

from air_aclgraph import outside_modes
from air_backend.eager_calls._running import Run, as_it_came, running_eagerly
from air_backend.eager_calls.errors import GradientsOfGradients, SecondDerivativeRefused
from air_graph import SourceLine, start_of

_OWN: Final = ("aten", "prims")
_version_of: Final = operator.attrgetter("_version")
#: The attribute of a node of autograd's that its forward call is remembered in.
_REMEMBERED: Final = "air_forward"

#: torch's function for a backward whose results are to be differentiated: `(node, compute, inputs)`.
_NAME: Final = "_double_backward"


@dataclass
class Repeatable:
    """Whether the forward of one compilation may run again; None where there is none, or it is not compiled."""

    known: bool | None = None


def repeats_itself(gm: fx.GraphModule) -> bool:
    """Whether the forward half in compilation draws no random numbers, writes nothing, and makes all of its results."""
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    if metadata is None or metadata.tokens or metadata.num_intermediate_bases:
        return False
    writes = any(one.mutates_data or one.mutates_metadata for one in metadata.input_info)
    makes_all = all(one.output_type is OutputType.non_alias for one in metadata.output_info)
    return makes_all and not writes and all(map(_gives_the_same, gm.graph.nodes))


def _gives_the_same(node: fx.Node) -> bool:
    """Whether a node gives the same again; of operators that are not torch's own nobody knows."""
    target = node.target
    if not isinstance(target, OpOverload):
        return node.op != "call_function" or target is operator.getitem
    return target.namespace in _OWN and torch.Tag.nondeterministic_seeded not in target.tags


class _Places:
    """Where tensors are among the arguments of a graph, which are of the same kinds in every call."""

    def __init__(self, args: Sequence[Any]) -> None:
        tensors = [place for place, one in enumerate(args) if isinstance(one, Tensor)]
        self.loose = [place for place in tensors if type(args[place]) is not Parameter]
        self.counted = [
            place for place in tensors if not args[place].is_inference()
        ]  # those have no versions

    def versions(self, args: Sequence[Any]) -> tuple[int, ...]:
        every = len(self.counted) == len(args)
        return tuple(map(_version_of, args if every else [args[place] for place in self.counted]))


@dataclass(frozen=True, slots=True)
class _Forward:
    """One call: its arguments, all tensors but parameters weakly, and what runs it again."""

    arguments: list[Any]
    places: _Places
    versions: tuple[int, ...]
    results: int
    """How many have a gradient."""
    again: Run | None

    @classmethod
    def of(cls, args: Sequence[Any], places: _Places, results: int, again: Run | None) -> _Forward:
        arguments = list(args)
        for place in places.loose:
            arguments[place] = weakref.ref(args[place])
        return cls(arguments, places, places.versions(args), results, again)

    def alive(self) -> list[Any] | None:
        """The arguments, if all tensors are there and unwritten."""
        args = list(self.arguments)
        for place in self.places.loose:
            args[place] = args[place]()
            if args[place] is None:
                return None
        return args if self.places.versions(args) == self.versions else None

    def gradients(self, node: Any, inputs: Sequence[Any]) -> list[Tensor | None] | None:
        """The gradients for the inputs of a node of autograd's, differentiable; None where they cannot be had."""
        args = None if self.again is None else self.alive()
        places = None if args is None else _places_of(node, args)
        if self.again is None or args is None or places is None:
            return None
        with torch.enable_grad():
            same = {
                id(args[place]): args[place].view_as(args[place]) for place in places if place is not None
            }
            # not the arguments themselves: their hooks are for the caller's gradients
            args = [same.get(id(one), one) for one in args]
            results = [one for one in self.again(*args) if isinstance(one, Tensor) and one.requires_grad]
            given = [one for one in inputs[-self.results :] if isinstance(one, Tensor)]
            if [one.shape for one in given] != [one.shape for one in results]:
                return None
            asked = [args[place] for place in places if place is not None]
            found = iter(torch.autograd.grad(results, asked, given, create_graph=True, allow_unused=True))
        return [None if place is None else next(found) for place in places]

    def anchors(self) -> list[Tensor]:
        """The arguments that are there and may have a gradient."""
        found = [one() if isinstance(one, weakref.ref) else one for one in self.arguments]
        return [one for one in found if isinstance(one, Tensor) and one.requires_grad]


class _Refused(torch.autograd.Function):
    """A gradient that depends on some tensors in a way that nobody can differentiate."""

    @staticmethod
    def forward(ctx: Any, line: SourceLine | None, gradient: Tensor, *anchors: Tensor) -> Tensor:
        ctx.line = line
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise SecondDerivativeRefused(ctx.line)


def _places_of(node: Any, args: Sequence[Any]) -> list[int | None] | None:
    """For each input of a node, the argument that it is; None for an input that has no gradient."""
    edges = {
        tuple(get_gradient_edge(one))[:2]: place
        for place, one in enumerate(args)
        if isinstance(one, Tensor) and one.requires_grad
    }
    if len(node.needs_input_grad) != len(node.next_functions):
        return None
    asked = [None if edge[0] is None else edges.get(edge, -1) for edge in node.next_functions]
    return None if -1 in asked else asked


def twice_differentiable(compiled: Run, gm: fx.GraphModule, repeatable: Repeatable) -> Run:
    """`compiled`, whose gradients can be differentiated where its forward `gm` can run again."""
    if repeatable.known is None:
        return compiled
    original, line = as_it_came(gm) if repeatable.known else None, start_of(gm.graph)
    eager: Run | None = None
    changed: Any = None
    places: Any = None

    def again(*args: Any) -> Any:
        nonlocal eager
        if eager is None:
            assert original is not None
            eager = outside_modes(running_eagerly(original, GradientsOfGradients(line)))
        return eager(*args)

    def call(*args: Any) -> Any:
        nonlocal changed, places
        results = compiled(*args)
        count, node, is_direct = _node_of(results)
        if node is not None and not torch._C._is_any_autocast_enabled():
            if changed is not node._forward_cls:
                changed, places = node._forward_cls, _Places(args)
                _change(changed, line)
            repeated = again if is_direct and original is not None else None
            setattr(node, _REMEMBERED, _Forward.of(args, places, count, repeated))
        return results

    return call


def _node_of(results: Any) -> tuple[int, Any, bool]:
    """How many results have a gradient, the node of autograd's that all of them come from, and whether at once."""
    found: list[Any] = [one.grad_fn for one in results if isinstance(one, Tensor) and one.requires_grad]
    nodes = [one if one is None or _is_compiled(one) else _before(one) for one in found]
    node = nodes[0] if nodes and all(one is nodes[0] for one in nodes) and _is_compiled(nodes[0]) else None
    return len(found), node, nodes == found


def _before(node: Any) -> Any:
    """The node that one of a view comes from."""
    return next((to for to, _ in node.next_functions), None)


def _is_compiled(node: Any) -> bool:
    return hasattr(getattr(node, "_forward_cls", None), _NAME)


def _change(function: Any, line: SourceLine | None) -> None:
    """Asks for the remembered forward first, where torch would refuse a second derivative later, or give none.

    Dynamo leaves it alone: a gradient is asked for inside compiled functions as well.
    """
    refusing: Callable[..., Any] = getattr(function, _NAME)

    @torch._dynamo.disable  # type: ignore[untyped-decorator]  # torch does not say what it gives
    def differentiable(node: Any, compute: Callable[[], Any], inputs: list[Any]) -> Any:
        forward = getattr(node, _REMEMBERED, None)
        found = None if forward is None else forward.gradients(node, inputs)
        if found is not None:
            return tuple(found)
        given, anchors = refusing(node, compute, inputs), [] if forward is None else forward.anchors()
        refused: Any = _Refused.apply
        return tuple(refused(line, one, *anchors) if isinstance(one, Tensor) else one for one in given)

    setattr(function, _NAME, staticmethod(differentiable))
