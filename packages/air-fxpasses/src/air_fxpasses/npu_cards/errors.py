"""What the declared operators raise: which operator, what about it, what to do."""

from __future__ import annotations

from dataclasses import dataclass

from air_fxpasses.errors import FxPassError


@dataclass(eq=False)
class NotCovered(FxPassError, NotImplementedError):
    """A reference kernel was asked for a variant of the operator that it does not compute.

    Run this call on an NPU; its shapes and types are known everywhere.
    """

    operator: str
    variant: str
    what = "the reference kernel of npu::{operator} does not compute {variant}"
    advice = "run this call on an NPU; shapes and types are known to the fake kernel all the same"


class NotAnNpuOperator(FxPassError, LookupError):
    """A name that this package has no row for.

    Correct the name; `npu_ops.operators()` lists all rows.
    """

    def __init__(self, name: str, nearest: tuple[str, ...]) -> None:
        self.name = name
        self.nearest = nearest
        hint = f"; did you mean {' or '.join(nearest)}?" if nearest else ""
        super().__init__(
            f"air_fxpasses.npu_ops has no operator '{name}'{hint}",
            advice="air_fxpasses.npu_ops.operators() lists those that it has",
        )
