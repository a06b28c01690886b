"""Kernels that are the reference of a card: the meaning is written once, in `air_fxpasses.npu_cards`.

The rows say what each input and attribute of an operator type stands for, by the documents of Ascend IR. That the cards
say the same is what the tests of converters show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor

from air_fxpasses.npu_cards import NotCovered, reference
from air_geir.prototypes import get
from air_geir.reference.kernels._registry import Operator, Run, kernel


def of_card(
    op_type: str,
    operator: str,
    ports: str,
    attributes: str = "",
    *,
    types: str = "",
    fixed: Mapping[str, Any] | None = None,
    gives: str = "",
    ignored: str = "",
    host: Iterable[str] = (),
    writes: Mapping[str, int] | None = None,
) -> None:
    """Registers the reference of `operator` as the kernel of `op_type`.

    Args:
        op_type: of Ascend IR.
        operator: of `npu::`.
        ports: the argument for each input in the order of the prototype; `*name` is a list that holds one tensor, `-`
            an input that no argument stands for.
        attributes: arguments that are attributes, `argument=attribute` where names differ.
        types: those whose attribute is the number of a type.
        fixed: arguments that the operator type has no attribute for.
        gives: for each output the number of a result, or the input it is; left out, the results as they are.
        ignored: attributes that change no number; any other that is not named is refused unless it has its default.
        host: ports that are handed over as integers.
        writes: ports written in place, with their outputs.
    """

    named = {theirs for _, theirs in (*_pairs(attributes), *_pairs(types))} | set(ignored.split())
    unread = [spec for spec in get(op_type).attrs if spec.name not in named]

    def factory(op: Operator) -> Run:
        for spec in unread:
            if (value := attribute(op, spec.name)) != spec.default:
                raise op.refuse(f"{spec.name}={value!r} is not supported")
        given = {ours: attribute(op, theirs) for ours, theirs in _pairs(attributes)}
        given |= {ours: op.dtype(theirs) for ours, theirs in _pairs(types)} | dict(fixed or {})
        return calling(op, operator, ports, given, gives)

    kernel(op_type, host=host, writes=writes)(factory)


def calling(op: Operator, operator: str, ports: str, given: Mapping[str, Any], gives: str = "") -> Run:
    """A function of the inputs that calls the reference; what that does not compute is refused."""
    names, outputs, compute = ports.split(), gives.split(), reference(operator)

    def run(*values: Any) -> Any:
        fed = {}
        for name, value in zip(names, values, strict=True):
            if name == "-" and value is not None:
                raise op.refuse("one of the inputs cannot be computed with")
            if name != "-":
                fed[name.removeprefix("*")] = _only(op, value) if name.startswith("*") else value
        try:
            results = compute(**fed, **given)
        except NotCovered as why:
            raise op.refuse(f"{why.variant} cannot be computed") from why
        return tuple(results[int(o)] if o.isdigit() else fed[o] for o in outputs) if outputs else results

    return run


def attribute(op: Operator, name: str) -> Any:
    """An attribute as an argument: text is a string, numbers are a tuple."""
    value = op.attr(name)
    if isinstance(value, list):
        return tuple(value)
    return value.decode() if isinstance(value, bytes) else value


def _pairs(text: str) -> list[tuple[str, str]]:
    return [(word.partition("=")[0], word.rpartition("=")[2]) for word in text.split()]


def _only(op: Operator, tensors: Sequence[Tensor]) -> Tensor:
    if len(tensors) != 1:
        raise op.refuse("a list of caches cannot be computed")
    return tensors[0]
