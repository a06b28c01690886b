"""The shape key of a call: the tuple of what the captured kernels were specialised on.

Numbers among the inputs are taken as they are.  A symbolic size that no number of the inputs stands for is
read off the first tensor that has it as a plain dimension; a tensor with a dimension that is an expression
of unknown symbols contributes its whole shape.  Strides with symbols that no size stands for are read like sizes, and
of an input whose storage the graph addresses the place in that storage and its bytes.  A float is taken as it is
written: kernels tell 0.0 from -0.0, which are equal, and one NaN is like another, which are not. An object that is
neither tensor nor number and that an operator reads is in the key as what it is, by `_objects.identity`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from torch import SymBool, SymInt, Tensor

from air_aclgraph._memory import place_in_storage
from air_aclgraph._objects import identity, is_read
from air_aclgraph._slots import Kind, Slot

Key = tuple[Any, ...]
KeyOf = Callable[[Sequence[Any]], Key]

#: Examples whose values are as different as they compare: a graph is guarded on the type of each.
_ALIKE: Final = (SymInt, SymBool, int, bool, str, type(None))


def exact(value: Any) -> Any:
    """Equal for two values that a kernel cannot tell apart, and for no others."""
    kind = type(value)
    if kind is float or kind is complex:
        return repr(value)
    if kind is bool:
        return ("bool", value)  # True is equal to 1
    if isinstance(value, Mapping):
        return tuple((name, exact(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(exact, value))
    return value


def key_function(slots: Sequence[Slot], without: Iterable[int] = ()) -> KeyOf | None:
    """The function from arguments to key; None when every call has the same key.

    `without` names inputs whose values are updated in the captured graph instead.
    """
    left_out = set(without)
    numbers = [s.index for s in slots if s.kind is Kind.VALUE and s.index not in left_out]
    known = {str(_symbol(s)) for s in slots if s.kind is Kind.VALUE} - {"None"}
    sizes = _size_sources(slots, known)
    layouts = [*_stride_sources(slots, known), *_place_sources(slots), *_object_sources(slots)]
    careful = [i for i in numbers if not isinstance(slots[i].node.meta.get("val", ...), _ALIKE)]
    if not numbers and not sizes and not layouts:
        return None
    if careful or sizes or layouts:
        return _general(numbers, frozenset(careful), sizes, layouts)
    if len(numbers) == 1:
        only = numbers[0]
        return lambda args: (args[only],)
    return itemgetter(*numbers)


def _symbol(slot: Slot) -> object:
    """The symbol that a number stands for; None for a plain number."""
    return getattr(getattr(slot.node.meta.get("val"), "node", None), "expr", None)


def _size_sources(slots: Sequence[Slot], known: set[str]) -> list[tuple[int, int | None]]:
    """(input, dimension) pairs to read; dimension None stands for the whole shape."""
    sources: list[tuple[int, int | None]] = []
    for slot in slots:
        value = slot.node.meta.get("val")
        if not isinstance(value, Tensor) or slot.kind is Kind.RETURNED:
            continue
        for dim, size in enumerate(value.shape):
            names = _symbols(size)
            if names <= known:
                continue
            if names == {str(size)}:
                known |= names
                sources.append((slot.index, dim))
            elif (slot.index, None) not in sources:
                sources.append((slot.index, None))
    return sources


def _stride_sources(slots: Sequence[Slot], known: set[str]) -> list[tuple[int, Callable[[Tensor], Any]]]:
    """Inputs whose strides are not settled by sizes: the same address does not make them the same tensor."""
    return [
        (slot.index, Tensor.stride)
        for slot in slots
        if isinstance(slot.node.meta.get("val"), Tensor)
        and slot.kind is not Kind.RETURNED
        and any(_symbols(stride) - known for stride in slot.node.meta["val"].stride())
    ]


def _symbols(size: object) -> set[str]:
    expression = getattr(getattr(size, "node", None), "expr", None)
    return {str(symbol) for symbol in getattr(expression, "free_symbols", ())}


def _place_sources(slots: Sequence[Slot]) -> list[tuple[int, Callable[[Tensor], Any]]]:
    return [(slot.index, place_in_storage) for slot in slots if slot.whole]


def _object_sources(slots: Sequence[Slot]) -> list[tuple[int, Callable[[Any], Any]]]:
    return [(slot.index, identity) for slot in slots if slot.kind is Kind.OBJECT and is_read(slot.node)]


def _general(
    numbers: Sequence[int],
    careful: frozenset[int],
    sizes: Sequence[tuple[int, int | None]],
    layouts: Sequence[tuple[int, Callable[[Any], Any]]],
) -> KeyOf:
    if not careful and not layouts:
        plain = tuple(numbers)

        def sized(args: Sequence[Any]) -> Key:
            values = [args[i] for i in plain]
            for index, dim in sizes:
                shape = args[index].shape
                values.append(tuple(shape) if dim is None else shape[dim])
            return tuple(values)

        return sized

    def key(args: Sequence[Any]) -> Key:
        given = (args[i] for i in numbers)
        values = [exact(v.item() if isinstance(v, Tensor) else v) for v in given]
        for index, dim in sizes:
            shape = args[index].shape
            values.append(tuple(shape) if dim is None else shape[dim])
        values.extend(layout_of(args[index]) for index, layout_of in layouts)
        return tuple(values)

    return key
