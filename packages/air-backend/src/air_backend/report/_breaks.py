"""Where torch ended the graphs of one call, and why: what it keeps about each graph break, taken apart.

{"reason": "Dynamic shape operator", "where": "model.py:6   n = (y > 0).nonzero()", "count": 1,
 "explanation": "Operator `aten.nonzero.default`'s output shape ...", "hints": ["Enable tracing of ..."],
 "more": "https://.../gb0036.html"}
"""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Sequence
from typing import Any, Final

from torch._dynamo.utils import counters, graph_break_reasons

from air_graph import SourceLine

__all__ = ["Noted", "breaks_since", "counted_since"]

CONDITION: Final = "a condition that depends on the values of a tensor"
#: What torch counts where it gives a whole function up, since it cannot go on in the middle of a loop.
GIVEN_UP: Final = "unimplemented"
_PART: Final = re.compile(r"\n\s*(?=Explanation:|Hint:|Developer debug context:|For more details)")
_SKIPPED: Final = re.compile(r"frame skipped: (\S+) \((.+) line (\d+)\)")
_ADDRESS: Final = re.compile(r"https?://\S+")


class Noted:
    """What torch has noted up to now, for `breaks_since`."""

    def __init__(self) -> None:
        self.reasons = [*graph_break_reasons]
        self.given_up = dict(counters[GIVEN_UP])


def breaks_since(before: Noted) -> list[dict[str, Any]]:
    """The breaks since then, each line and reason once with how often it was met."""
    known = {id(reason) for reason in before.reasons}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for noted in graph_break_reasons:
        if id(noted) not in known:
            where = _line(noted.user_stack)
            told = found.setdefault((noted.reason, where), {**_apart(noted.reason, where), "count": 0})
            told["count"] += 1
    given_up = counted_since(before.given_up, GIVEN_UP)
    loops = ((_SKIPPED.search(text), text, count) for text, count in given_up.items())
    return [*found.values(), *(_in_loop(frame, text, count) for frame, text, count in loops if frame)]


def _in_loop(frame: re.Match[str], text: str, count: int) -> dict[str, Any]:
    """A break in a loop, of which torch says in which function it is, and not where."""
    name, file, line = frame[1], frame[2], int(frame[3])
    told = _apart(text.partition("\n***")[0], str(SourceLine.at(file, line, linecache.getline(file, line))))
    reason = f"{told['reason']}, in a loop of {name}, which runs eagerly for that"
    return {**told, "reason": reason, "count": count}


def _line(stack: Sequence[traceback.FrameSummary]) -> str:
    """The innermost line of the program; empty where torch noted none."""
    return str(SourceLine("".join(traceback.format_list([*stack])))) if stack else ""


def _apart(text: str, where: str) -> dict[str, Any]:
    """The parts of torch's text; how it traces inside is left out."""
    if text.startswith("generic_jump"):
        return {"reason": CONDITION, "where": where}
    reason, *parts = _PART.split(text.strip())
    said = [part.partition(":") for part in parts]
    explanation = " ".join(_plain(rest) for name, _, rest in said if name == "Explanation")
    hints = [_plain(rest) for name, _, rest in said if name == "Hint"]
    address = _ADDRESS.search(text)
    told = {"reason": _plain(reason), "where": where, "explanation": explanation, "hints": hints}
    return {**told, "more": address[0] if address else ""}


def _plain(text: str) -> str:
    return " ".join(text.split())


def counted_since(before: dict[str, int], group: str) -> dict[str, int]:
    """What torch's counters of a group have counted since."""
    counted = {reason: count - before.get(reason, 0) for reason, count in counters[group].items()}
    return {reason: count for reason, count in counted.items() if count > 0}
