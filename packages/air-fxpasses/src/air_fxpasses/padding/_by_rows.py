"""The rule of operators that compute row by row: a factory for the cards of `npu_cards`."""

from __future__ import annotations

from collections.abc import Callable

from air_fxpasses.padding._call import Call
from air_fxpasses.padding._labels import Labels, Unproven


def by_rows(*names: str, mixed: int | str) -> Callable[[Call], tuple[Labels, ...]]:
    """The last dimensions of these arguments depend on one another; results begin with those before.

    `mixed` says how many: a number, or the argument that has as many.
    """

    def rule(call: Call) -> tuple[Labels, ...]:
        labels = call.labels(names[0])
        if any(call.labels(name) != labels for name in names[1:]):
            raise Unproven("its operands are padded in different places")
        whole = len(labels) - (mixed if isinstance(mixed, int) else len(call.labels(mixed)))
        call.require_none(labels[whole:], "it computes across the padded dimension")
        for other in set(call.arguments) - set(names):
            call.require_none(
                [label for _, each in call.tensors(other) for label in each], f"its {other} has padding"
            )
        return tuple((*labels[:whole], *[None] * output.dim())[: output.dim()] for output in call.outputs())

    return rule
