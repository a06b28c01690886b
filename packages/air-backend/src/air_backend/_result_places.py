"""Results that are views of a written argument lie where the program has them, with open sizes too.

    def step(cache, x):             # cache: every second row of a larger tensor, its length open
        cache.add_(x)
        return cache[:, 1:]

With open sizes AOTAutograd takes the strides and the offset of such a result from the value that the functional graph
computes, which lies densely in memory of its own, and makes a view of the argument with them: other elements. Where the
result begins, and its strides, are known from the values with which Dynamo traced; of a diagonal, only where it has
elements: the kernel leaves an empty one where its matrix begins, and torch's reference does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

import sympy  # type: ignore[import-untyped]  # sympy ships no annotations
import torch
from torch import SymInt, Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP
from torch.utils._sympy.printers import PythonPrinter

from air_graph import storage_of

Number = int | SymInt
DIAGONALS: Final = frozenset(("diagonal", "linalg_diagonal"))
"""What nodes of Dynamo call that is misstated where it is empty."""


@dataclass(frozen=True)
class ResultPlace:
    """One result, the argument that it is a view of, and the code of `(sizes, strides, offset)` from all arguments."""

    result: int
    argument: int
    source: str | None
    """None where it depends on more than the arguments."""
    is_of_diagonal: bool = False
    """Whether it is known only of a result with elements."""

    def function(self) -> Callable[[Sequence[Any]], tuple[Any, Any, int]]:
        """The code as a function of the arguments."""
        made: Callable[[Sequence[Any]], tuple[Any, Any, int]] = eval(
            f"lambda args: {self.source}", dict(SYMPY_INTERP)
        )
        return made


def places_of(gm: GraphModule) -> tuple[ResultPlace, ...]:
    """For each result of a graph of Dynamo with open sizes, and each argument in the same memory."""
    inputs = [node.meta.get("example_value") for node in gm.graph.find_nodes(op="placeholder")]
    (results,) = gm.graph.output_node().args
    found = []
    where: Mapping[sympy.Symbol, sympy.Symbol] | None = None
    for at, node in enumerate(results if isinstance(results, (tuple, list)) else ()):
        value = getattr(node, "meta", {}).get("example_value")
        if not _has_memory(value):
            continue
        for place in _owners(value, inputs):
            if where is None:
                where = dict(_accesses(inputs))
            source = _source(value, inputs[place], place, where)
            found.append(ResultPlace(at, place, source, _is_of_diagonal(node)))
    return tuple(found)


def _is_of_diagonal(node: Node) -> bool:
    """Whether a value is a diagonal, or a view of one."""
    storage = storage_of(node.meta["example_value"])
    behind = [node]
    for one in behind:  # which grows
        name = one.target if isinstance(one.target, str) else getattr(one.target, "__name__", "")
        if one.op != "placeholder" and name.partition(".")[0] in DIAGONALS:
            return True
        for source in one.all_input_nodes:
            value = source.meta.get("example_value")
            if source not in behind and _has_memory(value) and storage_of(value) == storage:
                behind.append(source)
    return False


def _owners(value: Tensor, inputs: Sequence[Any]) -> Iterator[int]:
    """The arguments that have open sizes and lie in the memory of a value."""
    storage = storage_of(value)
    for place, one in enumerate(inputs):
        if _has_memory(one) and storage_of(one) == storage:
            numbers = (*one.shape, *one.stride(), one.storage_offset(), *value.shape, *value.stride())
            alike = (value.dtype, value.is_conj(), value.is_neg()) == (one.dtype, one.is_conj(), one.is_neg())
            if alike and any(isinstance(number, SymInt) for number in numbers):
                yield place


def _has_memory(value: object) -> TypeGuard[Tensor]:
    """Whether a value lies in memory of its own; what stands for it inside a level of torch.func does not."""
    if not isinstance(value, Tensor) or is_functorch_wrapped_tensor(value):
        return False
    return value.layout is torch.strided


def _accesses(inputs: Sequence[Any]) -> Iterator[tuple[sympy.Symbol, sympy.Symbol]]:
    """How each symbol is read from the arguments of a call."""
    for place, one in reversed([*enumerate(inputs)]):
        if isinstance(one, SymInt):
            yield from _access(one, f"args[{place}]")
        elif _has_memory(one):
            yield from _access(one.storage_offset(), f"args[{place}].storage_offset()")
            for dim in range(one.dim()):
                yield from _access(one.stride()[dim], f"args[{place}].stride({dim})")
                yield from _access(one.shape[dim], f"args[{place}].size({dim})")


def _access(number: Number, code: str) -> Iterator[tuple[sympy.Symbol, sympy.Symbol]]:
    if isinstance(number, SymInt) and isinstance(number.node.expr, sympy.Symbol):
        yield number.node.expr, sympy.Symbol(code, integer=True)


def _source(
    value: Tensor, argument: Tensor, place: int, where: Mapping[sympy.Symbol, sympy.Symbol]
) -> str | None:
    """The code of where a result lies."""
    begins = _expr(value.storage_offset()) - _expr(argument.storage_offset())
    numbers = [*map(_expr, value.shape), *map(_expr, value.stride()), begins]
    if not set().union(*(one.free_symbols for one in numbers)) <= where.keys():
        return None
    texts = [PythonPrinter().doprint(one.xreplace(where)) for one in numbers]
    sizes, strides = _tuple(texts[: value.dim()]), _tuple(texts[value.dim() : -1])
    return f"({sizes}, {strides}, args[{place}].storage_offset() + {texts[-1]})"


def _expr(number: Number) -> sympy.Expr:
    return number.node.expr if isinstance(number, SymInt) else sympy.Integer(number)


def _tuple(texts: Iterable[str]) -> str:
    return "(" + "".join(f"{text}, " for text in texts) + ")"


def at_their_places(compiled: Callable[..., Any], places: Sequence[ResultPlace]) -> Callable[..., Any]:
    """`compiled`, with these results made anew of their arguments where they lie otherwise."""
    if not places:
        return compiled
    made = [(place, place.function()) for place in places]

    def call(*args: Any) -> Any:
        results = compiled(*args)
        for place, lying in made:
            result, owner = results[place.result], args[place.argument]
            if result is owner or (place.is_of_diagonal and not result.numel()):
                continue
            size, stride, offset = lying(args)
            if result.storage_offset() != offset or result.stride() != stride:
                results = [*results]
                view = owner.as_strided(size, stride, offset)
                results[place.result] = view if result.requires_grad else view.detach()
        return results

    return call
