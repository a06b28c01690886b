"""Ctrl-C at any place of AIR: the call ends, nothing hangs, and all calls after it are right.

Python looks for an interrupt where a function begins, and where a call of a builtin is over.

`--fuzz-programs N` sets how many interrupts each program gets (a tenth on an NPU), `--fuzz-seed S` which ones.
"""

from __future__ import annotations

import faulthandler
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any, Final

import pytest

from called_programs import ANYWHERE, ON_NPU, Called, compiled
from fuzz.campaigns import MODES
from fuzz.campaigns import ON_NPU as FEWER

LIMIT_S: Final = 300
#: max-autotune draws numbers of its own.
CASES: Final = [
    (name, mode)
    for name in (*ANYWHERE, *ON_NPU)
    for mode in MODES
    if (name, mode) != ("dropped", "max-autotune")
]


class Interrupt(KeyboardInterrupt):
    """The one that a test makes."""


def is_ours(code: CodeType) -> bool:
    return "/air_" in code.co_filename or code.co_filename.startswith("<air")


class Places:
    """Counts the places of AIR that are passed, and interrupts at one of them."""

    def __init__(self, at: int = 0) -> None:
        self.at, self.count, self.place = at, 0, ""

    def _passed(self, frame: FrameType, event: str, _: Any) -> None:
        if event in ("call", "c_return") and is_ours(frame.f_code):
            self.count += 1
            if self.count == self.at:
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise Interrupt

    def around(self, work: Callable[[], Any]) -> None:
        before = sys.getprofile()
        sys.setprofile(self._passed)
        try:
            work()
        except Interrupt:
            pass
        finally:
            sys.setprofile(before)


def passed_in(work: Callable[[], Any]) -> int:
    """How many places a piece of work passes."""
    places = Places()
    places.around(work)
    return places.count


@contextmanager
def without_hanging() -> Iterator[None]:
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def after_an_interrupt(called: Called, mode: str, expected: list[Any], step: int, place: int) -> str:
    """What is wrong in the calls after one; empty where nothing is."""
    run = compiled(called, mode)
    steps = called.steps(run)
    for each in steps[:step]:
        each()
    places = Places(place)
    places.around(steps[step])
    for number in (*range(len(expected)), *range(len(expected))):
        if wrong := called.wrong(run, number, expected[number]):
            return f"step {step}, place {place} ({places.place}): {wrong}"
    return ""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_the_calls_after_an_interrupt_are_right(
    name: str, mode: str, device: str, request: pytest.FixtureRequest
) -> None:
    if (name in ON_NPU and device != "npu") or (name == "streams" and mode == "max-autotune"):
        pytest.skip("streams and patched lengths are those of reduce-overhead on an NPU")
    first, count = (request.config.getoption(option) for option in ("--fuzz-seed", "--fuzz-programs"))
    called = {**ANYWHERE, **ON_NPU}[name](device)
    expected = [called.seen(called.function, number) for number in range(len(called.calls))]
    for _ in range(2):  # the first time in a process more is done
        counted = [passed_in(each) for each in called.steps(compiled(called, mode))]
    assert counted[0] > 1000, "the first call compiles"
    chance = random.Random(first)
    found = []
    with without_hanging():
        for _ in range(count if device == "cpu" else -(-count // FEWER)):
            step = chance.choice([step for step, total in enumerate(counted) if total])
            found.append(after_an_interrupt(called, mode, expected, step, chance.randint(1, counted[step])))
    assert "\n".join(filter(None, found)) == ""


def test_the_judge_interrupts_where_it_says_and_sees_what_is_wrong_after_it() -> None:
    called = ANYWHERE["cache"]("cpu")
    expected = called.seen(called.function, 0)
    run = compiled(called, "reduce-overhead")
    places = Places(at=50)
    places.around(lambda: called.seen(run, 0))
    assert places.count == 50
    assert "/air_" in places.place
    assert called.wrong(run, 0, expected) == ""
    assert "is wrong" in called.wrong(run, 1, expected)
    assert "raises TypeError" in called.wrong(lambda x: x, 0, expected)
