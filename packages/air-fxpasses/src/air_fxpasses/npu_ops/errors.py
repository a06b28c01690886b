"""What the declared operators raise: which operator, what about it, what to do."""

from __future__ import annotations

from air_fxpasses.errors import FxPassError


class NotCovered(FxPassError, NotImplementedError):
    """A reference kernel was asked for a variant of the operator that it does not compute.

    Run this call on an NPU; its shapes and types are known everywhere.
    """

    def __init__(self, operator: str, what: str) -> None:
        self.operator = operator
        self.what = what
        super().__init__(operator, what)

    def __str__(self) -> str:
        return (
            f"the reference kernel of npu::{self.operator} does not compute {self.what}\n"
            "  advice     run this call on an NPU; shapes and types are known to the fake kernel all the same"
        )


class NotAnNpuOperator(FxPassError, LookupError):
    """A name that this package has no row for.

    Correct the name; `npu_ops.operators()` lists all rows.
    """

    def __init__(self, name: str, nearest: tuple[str, ...]) -> None:
        self.name = name
        self.nearest = nearest
        super().__init__(name, nearest)

    def __str__(self) -> str:
        hint = f"; did you mean {' or '.join(self.nearest)}?" if self.nearest else ""
        return f"air_fxpasses.npu_ops has no operator '{self.name}'{hint}"
