"""Printing: tensors put into a text, and the text written out."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from torch import Tensor

from air_geir.reference.kernels._registry import Operator, Run, kernel


def _shown(value: Tensor | Sequence[int], most: int) -> str:
    """The elements as text; of a long axis the first and last `most`, or all when that is negative."""
    if isinstance(value, Tensor) and value.dim() == 0:
        number = value.item()
        if isinstance(number, bool):
            number = int(number)  # as the eager print does
        return f"{number:.9g}" if isinstance(number, float) else str(number)
    items = [_shown(v, most) if isinstance(v, Tensor) else str(v) for v in value]
    if 0 <= 2 * most < len(items):
        items = [*items[:most], "...", *items[-most:]]
    separator = " " if not isinstance(value, Tensor) or value.dim() == 1 else "\n "
    return f"[{separator.join(items)}]"


@kernel("StringFormat")
def string_format(op: Operator) -> Run:
    """The template with its placeholders replaced, one after another, by the elements of the inputs."""
    template: str = op.attr("template")
    hole, most = op.attr("placeholder"), int(op.attr("summarize"))

    def run(x: Sequence[Tensor]) -> str:
        first, *rest = template.split(hole)
        return first + "".join(_shown(t, most) + after for t, after in zip(x, rest, strict=True))

    return run


@kernel("PrintV2")
def print_text(op: Operator) -> Run:
    """Writes the text and a line end to standard output, whatever stream of the device is named: as eager code does."""

    def run(x: str) -> tuple[()]:
        sys.stdout.write(f"{x}\n")
        sys.stdout.flush()
        return ()

    return run
