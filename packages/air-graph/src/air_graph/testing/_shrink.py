"""Makes a failing case small: fewer calls, statements, results and parameters, plainer inputs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from air_graph.testing._case import Case, Given, Statement

T = TypeVar("T")
Fails = Callable[[Case], bool]


@dataclass
class Budget:
    """How long shrinking may go on."""

    seconds: float

    def __post_init__(self) -> None:
        self.end = time.monotonic() + self.seconds

    @property
    def is_spent(self) -> bool:
        return time.monotonic() > self.end


def shrink(case: Case, fails: Fails, seconds: float = 30.0) -> Case:
    """The smallest case found for which `fails` still holds."""
    budget = Budget(seconds)
    while True:
        smaller = _first(case, fails, budget)
        if smaller is None:
            return case
        case = smaller


def _first(case: Case, fails: Fails, budget: Budget) -> Case | None:
    for candidate in candidates(case):
        if budget.is_spent:
            return None
        if fails(candidate):
            return candidate
    return None


def candidates(case: Case) -> Iterator[Case]:
    """Cases that are a little smaller, those that take away most first."""
    for script in _without(case.script):
        yield replace(case, script=script)
    for body in _without(case.body):
        yield replace(case, body=body)
    for returns in case.returns.smaller():
        yield replace(case, returns=returns)
    yield from _inlined(case)
    yield from _fewer_parameters(case)
    if case.options:
        yield replace(case, options={})
        for key in case.options if len(case.options) > 1 else ():
            yield replace(case, options={k: v for k, v in case.options.items() if k != key})
    if case.dynamic is not False:
        yield replace(case, dynamic=False)
    yield from _plainer_inputs(case)


def _without(items: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """All but a run of items, long runs first, from the end."""
    length = len(items) // 2
    while length:
        for start in range(len(items) - length, -1, -length):
            yield items[:start] + items[start + length :]
        length //= 2
    if len(items) == 1:
        yield ()


_ASSIGNED = re.compile(r"(\w+) = (.*)", re.DOTALL)


def _inlined(case: Case) -> Iterator[Case]:
    """Without a statement, one of its operands in place of its result."""
    for at, statement in enumerate(case.body):
        match = _ASSIGNED.fullmatch(statement.text)
        if match is None:
            continue
        name, expression = match.groups()
        known = {*case.parameters, *re.findall(r"\bv\d+\b", expression)}
        for operand in [w for w in dict.fromkeys(re.findall(r"\b\w+\b", expression)) if w in known and w != name]:
            rest = tuple(Statement(_renamed(s.text, name, operand), s.tag) for s in case.body[at + 1 :])
            yield replace(case, body=case.body[:at] + rest, returns=_renamed_in(case.returns, name, operand))


def _renamed(text: str, name: str, other: str) -> str:
    return re.sub(rf"\b{name}\b", other, text)


def _renamed_in(given: Given, name: str, other: str) -> Given:
    parts = tuple(_renamed_in(part, name, other) for part in given.parts)
    return replace(given, text=_renamed(given.text, name, other), parts=parts)


_CALL = re.compile(r"(?P<result>r\d+ = f\()(?P<arguments>.*)\)")


def _fewer_parameters(case: Case) -> Iterator[Case]:
    if len(case.parameters) < 2:
        return
    for at, name in enumerate(case.parameters):
        if re.search(rf"\b{name}\b", case.source().split("\n", 1)[1]):
            continue
        script = tuple(_without_argument(line, at) for line in case.script)
        yield replace(case, parameters=case.parameters[:at] + case.parameters[at + 1 :], script=script)


def _without_argument(line: str, at: int) -> str:
    match = _CALL.fullmatch(line)
    if match is None:
        return line
    arguments = match["arguments"].split(", ")
    return f"{match['result']}{', '.join(arguments[:at] + arguments[at + 1 :])})"


_INPUT = re.compile(r"([abc]\d+) = (.*)")
_VALUES = re.compile(r"\(?\(torch\.arange\((\d+)(.*?)\) \* \d+ % 37 - \d+\)(?: / 4\))?")
#: What a plainer input leaves out, or has instead.
_PLAINER = (
    (".requires_grad_()", ""),
    (re.compile(r"\.to\(torch\.\w+\)"), ""),
    (re.compile(r"\.contiguous\(memory_format=.*?\)"), ""),
    (_VALUES, r"torch.arange(\1.0\2)"),
    (re.compile(r"\[[^\]]*\]"), ""),
    (re.compile(r"\.transpose\(0, -1\)"), ""),
    (re.compile(r"\.expand\([^)]*\)"), ""),
)


def _plainer_inputs(case: Case) -> Iterator[Case]:
    for at, line in enumerate(case.script):
        match = _INPUT.fullmatch(line)
        if match is None:
            continue
        for old, new in _PLAINER:
            text = match[2].replace(old, new) if isinstance(old, str) else old.sub(new, match[2])
            if text != match[2]:
                yield replace(case, script=(*case.script[:at], f"{match[1]} = {text}", *case.script[at + 1 :]))
