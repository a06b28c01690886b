"""Gradients of gradients: the forward runs once more, eagerly, and autograd differentiates that.

    (slope,) = torch.autograd.grad(step(x).sum(), x, create_graph=True)
    slope.pow(2).sum().backward()

What AOTAutograd makes cannot be differentiated twice. So the arguments of a forward are known until its backward has
run, and kept as long as the last calls have room for them (`_recent`): few programs ask for such gradients, and all
would pay with the memory of arguments that nothing saves, such as logits. Where one is gone, `create_graph=True` is an
error, and from there on the function keeps its arguments as long as what its forward saved; but not where hooks put
that elsewhere, to have the memory.

Where an argument was written since, or where the forward reads what it writes or draws random numbers, the gradient is
an error as well.
"""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, fx
from torch.autograd.graph import get_gradient_edge
from torch.nn import Parameter

from air_aclgraph import outside_modes
from air_backend.eager_calls._backward_half import many_laid_out
from air_backend.eager_calls._recent import Recent
from air_backend.eager_calls._repeats import Repeats, repeats_as
from air_backend.eager_calls._running import Run, as_it_came, eager_or_refused
from air_backend.eager_calls.errors import GradientsOfGradients, SecondDerivativeRefused
from air_graph import SourceLine, start_of

_version_of: Final = operator.attrgetter("_version")
#: The attribute of a node of autograd's that its forward call is remembered in.
_REMEMBERED: Final = "air_forward"
_hooks_of_saved: Final = torch._C._autograd._top_saved_tensors_default_hooks
_recent: Final = Recent()
_keeps_graph: Final = torch._C._autograd._get_current_graph_task_keep_graph


@dataclass
class Repeatable:
    """What is known of the forward half of one compilation."""

    is_compiled: bool = False
    repeats: Repeats | str = ""
    """How it runs again, or why it may not."""


@dataclass
class _Keeps:
    """Whether each call of a function keeps its arguments, until its backward has run."""

    arguments: bool = False


class _Tensors:
    """Which arguments of a graph are tensors, and of which devices: they are of the same kinds in every call."""

    def __init__(self, args: Sequence[Any], written: Sequence[int]) -> None:
        tensors = [place for place, one in enumerate(args) if isinstance(one, Tensor)]
        self.loose = [place for place in tensors if type(args[place]) is not Parameter]
        self.asked = [place for place in self.loose if args[place].requires_grad]
        unread = [place for place in tensors if place in written or args[place].is_inference()]
        self.counted = [place for place in tensors if place not in unread]
        devices = {args[place].device.type for place in tensors} | {"cpu"}
        self._casting = [one for one in sorted(devices) if torch.amp.is_autocast_available(one)]

    def versions(self, args: Sequence[Any]) -> tuple[int, ...]:
        every = len(self.counted) == len(args)
        return tuple(map(_version_of, args if every else [args[place] for place in self.counted]))

    def casts(self) -> tuple[tuple[str, torch.dtype], ...]:
        """The devices that autocast is on for now, and the types."""
        on = [one for one in self._casting if torch.is_autocast_enabled(one)]
        return tuple((one, torch.get_autocast_dtype(one)) for one in on)


@dataclass(frozen=True, eq=False)
class _Forward:
    """One call: its arguments, and what runs it again."""

    arguments: list[Any]
    tensors: _Tensors
    versions: tuple[int, ...]
    again: Run
    repeats: Repeats | str
    casts: tuple[tuple[str, torch.dtype], ...]
    """The devices that it ran under autocast for, and the types."""
    keeps: _Keeps

    @classmethod
    def of(
        cls, args: Sequence[Any], tensors: _Tensors, again: Run, repeats: Repeats | str, keeps: _Keeps
    ) -> _Forward:
        arguments = list(args)
        given_up = isinstance(repeats, str) or _hooks_of_saved(True) is not None
        if given_up or not keeps.arguments:
            for place in tensors.loose:
                arguments[place] = weakref.ref(args[place])
        casts = tensors.casts() if torch._C._is_any_autocast_enabled() else ()
        forward = cls(arguments, tensors, tensors.versions(args), again, repeats, casts, keeps)
        if not given_up and not keeps.arguments:
            _recent.hold(forward, [args[place] for place in tensors.loose])
        return forward

    def alive(self) -> list[Any] | str:
        """The arguments, if all tensors are there and unwritten; else what is with them."""
        args = list(map(_there, self.arguments))
        if any(args[place] is None for place in self.tensors.loose):
            self.keeps.arguments = True
            return "an argument is gone (from now on this function keeps its arguments: run the step again)"
        return args if self.tensors.versions(args) == self.versions else "an argument was written since"

    def differentiated(self, node: Any, given: Sequence[Tensor | None]) -> list[Tensor | None] | str:
        """The gradients for the inputs of a node of autograd's, differentiable, or why they cannot be had."""
        repeats = self.repeats
        if isinstance(repeats, str):
            return repeats
        args = self.alive()
        if isinstance(args, str):
            return args
        places = _inputs_of(node, args) if len(repeats.gradients) == len(given) else None
        if places is None:
            return "its arguments have another history now"
        asked = [place for place in places if place is not None]
        with torch.enable_grad():
            for place in repeats.written:
                args[place] = args[place].clone()
            # not the arguments themselves: their hooks are for the caller's gradients
            same = {id(args[place]): args[place].view_as(args[place]) for place in asked}
            args = [same.get(id(one), one) for one in args]
            results = self._run(args)
        pairs = [
            (of.tensor_in(results), one)
            for of, one in zip(repeats.gradients, given, strict=True)
            if of is not None and one is not None
        ]
        reached = [(to, one) for to, one in pairs if isinstance(to, Tensor) and to.requires_grad]
        if any(to.shape != one.shape for to, one in reached):
            return "it gave results of other sizes"
        found = iter(
            torch.autograd.grad(
                [to for to, _ in reached],
                [args[place] for place in asked],
                [one for _, one in reached],
                create_graph=True,
                allow_unused=True,
            )
        )
        return [None if place is None else next(found) for place in places]

    def _run(self, args: Sequence[Any]) -> Any:
        with ExitStack() as casts:
            if not self.casts:
                casts.enter_context(torch._C._DisableAutocast())
            for device, dtype in self.casts:
                casts.enter_context(torch.autocast(device, dtype, cache_enabled=False))
            return self.again(*args)

    def is_cut_off(self) -> bool:
        """Whether an argument is gone that has a gradient: nothing leads to what it was computed from any more."""
        return any(_there(self.arguments[place]) is None for place in self.tensors.asked)

    def anchors(self) -> list[Tensor]:
        """The arguments that are there and may have a gradient."""
        found = map(_there, self.arguments)
        return [one for one in found if isinstance(one, Tensor) and one.requires_grad]


def _there(argument: Any) -> Any:
    return argument() if isinstance(argument, weakref.ref) else argument


class _Refused(torch.autograd.Function):
    """A gradient that depends on some tensors in a way that nobody can differentiate."""

    @staticmethod
    def forward(ctx: Any, told: SecondDerivativeRefused, gradient: Tensor, *anchors: Tensor) -> Tensor:
        ctx.told = told
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise ctx.told


def _inputs_of(node: Any, args: Sequence[Any]) -> list[int | None] | None:
    """For each input of a node, the argument that it is; None for an input that has no gradient."""
    edges = {
        tuple(get_gradient_edge(one))[:2]: place
        for place, one in enumerate(args)
        if isinstance(one, Tensor) and one.requires_grad
    }
    into = iter([edges.get(edge, -1) for edge in node.next_functions if edge[0] is not None])
    asked = [next(into, -1) if needs else None for needs in node.needs_input_grad]
    return None if -1 in asked or next(into, None) is not None else asked


def twice_differentiable(compiled: Run, gm: fx.GraphModule, repeatable: Repeatable) -> Run:
    """`compiled`, whose gradients can be differentiated where its forward `gm` can run again."""
    if not repeatable.is_compiled:
        return compiled
    repeats = repeats_as(gm, repeatable.repeats)
    original = as_it_came(gm) if isinstance(repeats, Repeats) else None
    line = start_of(gm.graph)
    refused = functools.partial(SecondDerivativeRefused, str(repeats))
    again = outside_modes(eager_or_refused(original, line, GradientsOfGradients, refused))
    written = repeats.written if isinstance(repeats, Repeats) else ()
    changed: Any = None
    tensors: Any = None
    place: int | None = None
    keeps = _Keeps()

    def call(*args: Any) -> Any:
        nonlocal changed, tensors, place
        results = compiled(*args)
        place = _place_of_own(results, args) if place is None else place
        node = None if place is None else _node_of(results[place])
        if node is not None:
            if changed is not node._forward_cls:
                tensors, changed = (
                    _Tensors(args, written),
                    node._forward_cls,
                )  # in this order for other threads
                _change(changed, line)
            setattr(node, _REMEMBERED, _Forward.of(args, tensors, again, repeats, keeps))
        return results

    return call


def _place_of_own(results: Sequence[Any], args: Sequence[Any]) -> int | None:
    """Where a result is that the call made: no argument, nor a view of one; the same place in every call."""
    given = [one.grad_fn for one in args if isinstance(one, Tensor) and one.grad_fn is not None]
    made = (place for place, one in enumerate(results) if isinstance(one, Tensor) and one.requires_grad)
    return next((place for place in made if _node_of(results[place], given) is not None), None)


def _node_of(result: Any, given: Sequence[Any] = ()) -> Any:
    """The node of a compiled function that a result comes from, or what it is a view of; None beyond those given."""
    node = result.grad_fn if isinstance(result, Tensor) else None
    while node is not None and not any(node is one for one in given):
        if _is_compiled(node):
            return node
        before = node.next_functions
        node = before[0][0] if len(before) == 1 else None
    return None


def _is_compiled(node: Any) -> bool:
    return hasattr(getattr(node, "_forward_cls", None), "compiled_bw")


def _change(function: Any, line: SourceLine | None) -> None:
    """Asks the remembered forward for gradients that are to be differentiated, which torch would refuse, or not give.

    Dynamo leaves it alone: a gradient is asked for inside compiled functions as well.
    """
    once = many_laid_out(function.backward)

    def differentiable(node: Any, *given: Any) -> Any:
        is_boxed = len(given) == 1 and isinstance(given[0], list)
        gradients = given[0] if is_boxed else given
        forward = getattr(node, _REMEMBERED, None)
        if forward is None:
            return once(node, *given)
        found = forward.differentiated(node, gradients)
        if not isinstance(found, str):
            return tuple(found)
        told = SecondDerivativeRefused(found, line)
        if forward.is_cut_off():
            raise told
        plain = [one.detach() if isinstance(one, Tensor) else one for one in gradients]
        results = once(node, plain) if is_boxed else once(node, *plain)
        anchors = [one for one in gradients if isinstance(one, Tensor) and one.requires_grad]
        anchors += forward.anchors()
        refused: Any = _Refused.apply
        return tuple(refused(told, one, *anchors) if isinstance(one, Tensor) else one for one in results)

    @torch._dynamo.disable  # type: ignore[untyped-decorator]  # torch does not say what it gives
    def backward(node: Any, *given: Any) -> Any:
        if torch.is_grad_enabled():
            return differentiable(node, *given)
        if hasattr(node, _REMEMBERED) and not _keeps_graph():
            _recent.release(getattr(node, _REMEMBERED))
            delattr(node, _REMEMBERED)
        return once(node, *given)

    function.backward = staticmethod(backward)
