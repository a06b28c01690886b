"""Makes a failing case small: fewer calls, statements, results and parameters, plainer inputs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from air_graph.testing._case import Case, Given, Statement
from air_graph.testing._compare import differences
from air_graph.testing._run import run_case

T = TypeVar("T")
Fails = Callable[[Case], bool]


@dataclass
class Shrinker:
    """Keeps the smallest case that still fails."""

    case: Case
    fails: Fails
    seconds: float

    def __post_init__(self) -> None:
        self.end = time.monotonic() + self.seconds

    def takes(self, candidate: Case) -> bool:
        """Whether a smaller case fails as well: then it is the one to go on with."""
        if candidate == self.case or time.monotonic() > self.end or not self.fails(candidate):
            return False
        self.case = candidate
        return True

    def lines(self) -> bool:
        return self._fewer(lambda: self.case.script, lambda script: replace(self.case, script=script))

    def statements(self) -> bool:
        return self._fewer(lambda: self.case.body, lambda body: replace(self.case, body=body))

    def _fewer(self, items: Callable[[], tuple[T, ...]], made: Callable[[tuple[T, ...]], Case]) -> bool:
        """Leaves out runs of items, long runs first, from the end."""
        before = len(items())
        length = max(1, before // 2)
        while length:
            start = len(items()) - length
            while start >= 0:
                self.takes(made(items()[:start] + items()[start + length :]))
                start -= length
            length //= 2
        return len(items()) < before

    def any_of(self, smaller: Callable[[Case], Iterator[Case]]) -> bool:
        """Takes candidates of one kind until none of them fails."""
        changed = False
        while any(self.takes(candidate) for candidate in smaller(self.case)):
            changed = True
        return changed


def shrink(case: Case, fails: Fails, at: str = "", seconds: float = 30.0) -> Case:
    """The smallest case found for which `fails` still holds; `at` is the path of the value that differs."""
    shrinker = Shrinker(case, fails, seconds)
    shrinker.takes(_only(case, at))
    shrinker.takes(slimmed(shrinker.case))
    while True:
        steps = (
            shrinker.lines(),
            shrinker.statements(),
            shrinker.any_of(lambda c: (replace(c, returns=less) for less in c.returns.smaller())),
            shrinker.any_of(_inlined),
            shrinker.any_of(_fewer_parameters),
            shrinker.any_of(_plainer_options),
            shrinker.any_of(_plainer_inputs),
        )
        if not any(steps):
            return shrinker.case


def _only(case: Case, at: str) -> Case:
    """Nothing but the part of the result that a path names."""
    places = re.findall(r"\[(\d+)\]", at) if re.match(r"r\d+\[", at) else []
    if case.returns.kind == "value" or not places:
        return case
    kept = int(places[0])
    parts = (part if place == kept else Given() for place, part in enumerate(case.returns.parts))
    return replace(case, returns=replace(case.returns, parts=tuple(parts)))


def slimmed(case: Case) -> Case:
    """Without the statements that change nothing in eager."""
    expected = run_case(case)
    for place in range(len(case.body) - 1, -1, -1):
        candidate = replace(case, body=case.body[:place] + case.body[place + 1 :])
        found = run_case(candidate)
        if found.raised is None and not differences(expected, found, True):
            case = candidate
    return case


def _plainer_options(case: Case) -> Iterator[Case]:
    for key in case.options:
        yield replace(case, options={k: v for k, v in case.options.items() if k != key})
    if case.dynamic is not False:
        yield replace(case, dynamic=False)


_ASSIGNED = re.compile(r"(\w+) = (.*)", re.DOTALL)


def _inlined(case: Case) -> Iterator[Case]:
    """Without a statement, one of its operands in place of its result."""
    for at, statement in enumerate(case.body):
        match = _ASSIGNED.fullmatch(statement.text)
        if match is None:
            continue
        name, expression = match.groups()
        known = {*case.parameters, *re.findall(r"\bv\d+\b", expression)}
        for operand in [
            w for w in dict.fromkeys(re.findall(r"\b\w+\b", expression)) if w in known and w != name
        ]:
            rest = tuple(Statement(_renamed(s.text, name, operand), s.tag) for s in case.body[at + 1 :])
            yield replace(case, body=case.body[:at] + rest, returns=_renamed_in(case.returns, name, operand))


def _renamed(text: str, name: str, other: str) -> str:
    return re.sub(rf"\b{name}\b", other, text)


def _renamed_in(given: Given, name: str, other: str) -> Given:
    parts = tuple(_renamed_in(part, name, other) for part in given.parts)
    return replace(given, text=_renamed(given.text, name, other), parts=parts)


_CALL = re.compile(r"(?P<result>(?:with torch\.\w+\(\): )?r\d+ = f\()(?P<arguments>.*)\)")


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
                yield replace(
                    case, script=(*case.script[:at], f"{match[1]} = {text}", *case.script[at + 1 :])
                )
