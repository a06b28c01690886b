"""Why torch ended the graphs of one call: its counters, and the breaks that they leave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from torch import fx
from torch._dynamo.utils import counters

from air_backend._backend import Backend

__all__ = ["BREAKS", "BreakingBackend", "counted_since"]

BREAKS: Final = "graph_break"
CONDITION: Final = "a condition that depends on the values of a tensor"


class BreakingBackend(Backend):
    """A backend that notes what ended each graph it gets: torch does not count a branch on values as a break."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.uncounted: Counter[str] = Counter()

    def __call__(self, gm: Any, example_inputs: Sequence[Any], **given: Any) -> Callable[..., Any]:
        reason = getattr(gm, "compile_subgraph_reason", None)
        if isinstance(gm, fx.GraphModule) and reason is not None and reason.graph_break:
            self.uncounted.update([_said(reason)] if reason.reason not in counters[BREAKS] else [])
        return super().__call__(gm, example_inputs, **given)


def _said(reason: Any) -> str:
    what = CONDITION if reason.reason.startswith("generic_jump") else reason.reason
    line = next((f", at {frame.filename}:{frame.lineno}" for frame in reversed(reason.user_stack)), "")
    return what + line


def counted_since(before: dict[str, int], group: str) -> dict[str, int]:
    """What torch's counters of a group have counted since."""
    counted = {reason: count - before.get(reason, 0) for reason, count in counters[group].items()}
    return {reason: count for reason, count in counted.items() if count > 0}
