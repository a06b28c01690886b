"""A compiled function as a handle that is called without Dynamo: `pin(compiled, *example)`.

    step = torch.compile(model, backend="air", mode="reduce-overhead", fullgraph=True)
    with torch.no_grad():
        fast = pin(step, x)     # runs the example once; looks what was captured, and how values come and go
        y = fast(other_x)       # copies other_x, replays, returns what `step` would return

The caller vouches for what guards and address tests find out otherwise: parameters, globals, and that no Python code
beside the graph matters. What can be checked for next to nothing is: the number of the arguments, the types, sizes and
devices of those that are copied, that an argument whose address the capture holds is the very tensor of the example and
lies as it did, that arguments that were one tensor are one, and that none is to have a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_structure, tree_unflatten

import air_aclgraph
from air_aclgraph.errors import InputRefused
from air_backend._held import Held
from air_backend._in_order import InOrder
from air_backend._kinds import Kinds
from air_backend._shared_memory import Fitting, Traced, Written
from air_backend._uncompiled import COMPILED_CALL, uncompiled
from air_backend.eager_calls.errors import TangentsRefused
from air_backend.errors import CannotPin, PinnedArgument, PinnedGradient

_MANY: Final = "several graphs ran: {0}"
_NOT_COMPILED: Final = (
    "{0} is no function that torch.compile made, and it calls none that runs a captured graph"
)
_TRAINED: Final = "the result of the example has a gradient, and a graph that is trained is not called alone"
_NONE: Final = "no graph that mode reduce-overhead captured ran in the example, or one that torch has to wrap"


class PinnedCall:
    """A compiled function at the shapes of its example, called without guards."""

    def __init__(
        self, handle: Callable[..., Any], example: Sequence[Any], spec: TreeSpec, taken: Sequence[int]
    ) -> None:
        self._handle = handle
        self._count = len(example)
        self._spec = spec
        self._taken = tuple(taken)
        self._kinds = Kinds([example[place] for place in taken])
        self._devices = [example[place].device for place in taken]
        self._shares: Callable[[Sequence[Any]], None] | None = None
        first = {id(example[place]): place for place in taken}
        others = [place for place in range(len(example)) if place not in set(taken)]
        self._twins = tuple(
            (place, first[id(example[place])]) for place in others if id(example[place]) in first
        )
        """Arguments that were the same tensor in the example, of which the graph has one."""
        self._held = Held(example, [place for place in others if id(example[place]) not in first])
        self._plain = (
            all(child.is_leaf() for child in spec.child(0).children()) and not spec.child(1).num_leaves
        )
        self._result: Callable[[Sequence[Any]], Any] = tuple
        self._returns_arguments = False

    def returning(self, result: _Result) -> PinnedCall:
        """The same, with what makes the function's result."""
        self._result, self._returns_arguments = result.make, result.of_arguments
        return self

    def checking(self, shares: Callable[[Sequence[Any]], None] | None) -> PinnedCall:
        """The same, with what raises where the inputs that are copied share memory as no call may."""
        self._shares = shares
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Copies the inputs, replays the capture and returns what the compiled function returns."""
        if forward_ad._current_level >= 0:
            raise TangentsRefused()
        leaves = args if self._plain and not kwargs else self._leaves(args, kwargs)
        if len(leaves) != self._count:
            raise PinnedArgument(f"{len(leaves)} arguments are given, the example had {self._count}")
        if torch.is_grad_enabled():
            _refuse_gradients(leaves)
        self._held.check(leaves)
        for place, twin in self._twins:
            if leaves[place] is not leaves[twin]:
                raise PinnedArgument(
                    f"arguments {place} and {twin} are two tensors, which were one in the example"
                )
        taken = [leaves[place] for place in self._taken]
        if (told := self._kinds.difference(taken)) is not None:
            raise PinnedArgument(f"of the arguments that are copied, {told}")
        if [value.device for value in taken] != self._devices:
            self._refuse_device(taken)
        if self._shares is not None:
            self._shares(taken)
        outputs = self._handle(*taken)
        return self._result((*outputs, *leaves) if self._returns_arguments else outputs)

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        leaves, spec = tree_flatten((args, kwargs))
        if spec != self._spec:
            raise PinnedArgument(f"the arguments are nested as {spec}, those of the example as {self._spec}")
        return leaves

    def _refuse_device(self, taken: Sequence[Tensor]) -> None:
        for place, value, device in zip(self._taken, taken, self._devices, strict=True):
            if value.device != device:
                raise PinnedArgument(f"argument {place} lies on {value.device}, in the example on {device}")


def _refuse_gradients(leaves: Sequence[Any]) -> None:
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, Tensor) and leaf.requires_grad:
            raise PinnedGradient(place)


def pin(compiled: Callable[..., Any], *args: Any, **kwargs: Any) -> PinnedCall:
    """Runs the compiled function once on an example and gives a handle for calls of the same shapes."""
    with air_aclgraph.witnessed() as seen:
        results = compiled(*args, **kwargs)
    if len(seen) != 1:
        raise CannotPin(_why_not_one([one.executor.name for one in seen], compiled, results))
    executor = seen[0].executor
    shared = executor if isinstance(executor, InOrder) else None
    if shared is not None:
        executor = shared.executor
    if not isinstance(executor, air_aclgraph.AnyExecutable):
        raise CannotPin(f"the graph runs in a {type(executor).__name__}, which captures nothing")
    example, spec = tree_flatten((args, kwargs))
    try:
        handle = executor.pin(*seen[0].args)
    except InputRefused as refused:
        raise CannotPin(refused.what) from refused
    places = {id(leaf): place for place, leaf in enumerate(example) if isinstance(leaf, Tensor)}
    taken: list[int] = []
    for index in handle.places:
        place = places.get(id(seen[0].args[index]))
        if place is None:
            name = executor.slots[index].name
            raise CannotPin(
                f"input {name} of {executor.name} is no argument: Python code made it in the call"
            )
        taken.append(place)
    call = handle if shared is None else shared.pinned(handle)
    pinned = PinnedCall(call, example, spec, taken).returning(_result(results, seen[0].outputs, example))
    return pinned.checking(_sharing_of(executor, seen[0].args, handle.places))


def _why_not_one(graphs: Sequence[str], compiled: Callable[..., Any], results: Any) -> str:
    """Why the example did not run one graph that can be called alone."""
    if graphs:
        return _MANY.format(", ".join(graphs))
    if uncompiled(compiled) is compiled and getattr(compiled, COMPILED_CALL, None) is None:
        return _NOT_COMPILED.format(getattr(compiled, "__qualname__", type(compiled).__name__))
    if any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in tree_leaves(results)):
        return _TRAINED
    return _NONE


def _sharing_of(
    executor: air_aclgraph.AnyExecutable, args: Sequence[Any], copied: Sequence[int]
) -> Callable[[Sequence[Any]], None] | None:
    """Raises where inputs that are copied share memory with what the graph writes, and did not in the example."""
    written = Written(
        True,
        tuple(slot.is_written for slot in executor.slots),
        frozenset(range(len(args))).difference(copied),
    )
    fits = Fitting(Traced.by(args), written)
    if not fits.needed or not copied:
        return None
    every = list(args)

    def check(values: Sequence[Any]) -> None:
        given = every.copy()
        for index, value in zip(copied, values, strict=True):
            given[index] = value
        if not fits(given):
            names = ", ".join(executor.slots[index].name for index in fits.difference(given))
            raise PinnedArgument(
                f"the graph writes to one of its inputs {names}, and they do not share memory as in the example"
            )

    return check


@dataclass(frozen=True)
class _Result:
    """How the function's result is made of the graph's outputs, followed by its arguments where it returns some."""

    make: Callable[[Sequence[Any]], Any]
    of_arguments: bool = False


def _result(results: Any, outputs: Sequence[Any], example: Sequence[Any]) -> _Result:
    """How the result of the example was made."""
    leaves, spec = tree_flatten(results)
    values = [*outputs, *example]
    made = {id(value): index for index, value in reversed([*enumerate(values)]) if isinstance(value, Tensor)}
    sources = [made.get(id(leaf)) for leaf in leaves]
    for leaf, source in zip(leaves, sources, strict=True):
        if source is None and isinstance(leaf, Tensor):
            raise CannotPin(
                "a tensor of the result is no output of the graph: Python code made it in the call"
            )
    of_arguments = any(source is not None and source >= len(outputs) for source in sources)
    if spec.is_leaf() and sources[0] is not None:
        return _Result(itemgetter(sources[0]), of_arguments)
    if sources == list(range(len(outputs))) and spec == tree_structure((0,) * len(outputs)):
        return _Result(tuple)
    kept = [None if source is not None else leaf for leaf, source in zip(leaves, sources, strict=True)]

    def rebuild(values: Sequence[Any]) -> Any:
        filled = [leaf if s is None else values[s] for leaf, s in zip(kept, sources, strict=True)]
        return tree_unflatten(filled, spec)

    return _Result(rebuild, of_arguments)
