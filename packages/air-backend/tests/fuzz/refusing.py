"""A program during which the driver refuses one call: what `test_refused_calls` runs in processes of its own.

python -m fuzz.refusing PROGRAM MODE count              the calls of CANN in each step, as JSON
python -m fuzz.refusing PROGRAM MODE 1:aclrtMalloc:2 …  a JSON line for each refusal: what was wrong after it
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch

from called_programs import ANYWHERE, ON_NPU, Called, compiled

LIMIT_S: Final = 60
#: They give no error code.
NOT_REFUSABLE: Final = frozenset(("aclGetRecentErrMsg", "aclrtPeekAtLastError", "aclrtGetLastError"))


def npu() -> Any:
    """The device module of torch_npu."""
    return torch.get_device_module("npu")


def counts(called: Called, mode: str) -> Iterator[dict[str, int]]:
    """How often each step calls each function that can be refused."""
    import air_sim

    for step in called.steps(compiled(called, mode)):
        npu().synchronize()
        before = air_sim.counters()
        step()
        npu().synchronize()
        found = {name: total - before.get(name, 0) for name, total in air_sim.counters().items()}
        yield {name: total for name, total in found.items() if total and name not in NOT_REFUSABLE}


def refused(called: Called, mode: str, expected: Sequence[Any], step: int, function: str, number: int) -> str:
    """What is wrong when a call in a step is refused, or after it; empty where nothing is."""
    import air_sim

    run = compiled(called, mode)
    steps = called.steps(run)
    for each in steps[:step]:
        each()
    npu().synchronize()
    air_sim.change(fault=f"{function}@{number}")
    wrong = ""
    try:
        found = steps[step]()
        if step < len(expected):
            torch.testing.assert_close(found, expected[step], rtol=1e-3, atol=1e-3)
    except AssertionError as difference:
        wrong = f"silently wrong: {difference}"
    except Exception:
        pass  # an error is right; which one, its own tests say
    finally:
        air_sim.change(fault="")
    if wrong or is_lost(called, expected):
        return wrong
    for again in (*range(len(expected)), *range(len(expected))):
        if wrong := called.wrong(run, again, expected[again]):
            return wrong
    return ""


def is_lost(called: Called, expected: Sequence[Any]) -> bool:
    """Whether this process has no device any more, as torch_npu leaves it after a failed launch."""
    import air_sim

    with contextlib.suppress(Exception):
        npu().synchronize()  # says what came late
    if not called.wrong(called.function, 0, expected[0]):
        return False
    with contextlib.suppress(air_sim.errors.DeviceLost):
        air_sim.recover()
        return bool(called.wrong(called.function, 0, expected[0]))
    return True


def main(name: str, mode: str, *cases: str) -> None:
    warnings.simplefilter("ignore")
    called = {**ANYWHERE, **ON_NPU}[name]("npu")
    expected = [called.seen(called.function, number) for number in range(len(called.calls))]
    if cases == ("count",):
        list(counts(called, mode))  # what is done once in a process is none of it
        print(json.dumps(list(counts(called, mode))), flush=True)
        return
    for case in cases:
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        print(json.dumps({"begun": case}), flush=True)
        step, rest = case.split(":", 1)
        function, number = rest.rsplit(":", 1)
        wrong = refused(called, mode, expected, int(step), function, int(number))
        lost = is_lost(called, expected)
        print(json.dumps({"done": case, "wrong": wrong, "lost": lost}), flush=True)
        if lost or wrong:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
