"""The driver refuses any one call: nothing hangs, no number is wrong, and the calls after it are right.

`--fuzz-programs N` sets how many refusals each program gets (a tenth), `--fuzz-seed S` which ones. A process whose
device is lost, as torch_npu loses it when a launch in its queue fails, ends there; the next one goes on.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from called_programs import ANYWHERE, ON_NPU
from forked import on_air_sim
from fuzz.campaigns import MODES
from fuzz.campaigns import ON_NPU as FEWER

pytestmark = pytest.mark.npu("air-sim injects the faults")
air_sim = pytest.importorskip("air_sim")

#: Dropout of torch_npu works on a stream of its own, whose events end the process when they are refused, in eager too.
PROGRAMS: Final = [name for name in (*ANYWHERE, *ON_NPU) if name != "dropped"]
CASES: Final = [
    (name, mode) for name in PROGRAMS for mode in MODES if (name, mode) != ("streams", "max-autotune")
]


def told(folder: Path, *words: str) -> Iterator[Any]:
    """What a process says, a line of JSON each."""
    source = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
    source += f"from fuzz.refusing import main; main(*{words!r})"
    done = on_air_sim(source, folder)
    yield from (json.loads(line) for line in done.stdout.splitlines() if line.startswith(("{", "[")))
    if done.returncode:
        yield {"ended": f"exit status {done.returncode}: {done.stderr[-3000:]}"}


def refusals(steps: list[dict[str, int]]) -> list[str]:
    """Every call that can be refused: step, function, and which of its calls there."""
    named = [
        (step, name, total) for step, counted in enumerate(steps) for name, total in sorted(counted.items())
    ]
    prepared = [
        (step, f"{name}GetWorkspaceSize", total) for step, name, total in named if name.startswith("aclnn")
    ]
    return [
        f"{step}:{name}:{n}" for step, name, total in (*named, *prepared) for n in {1, 2, total} if n <= total
    ]


def wrong_after(folder: Path, name: str, mode: str, cases: list[str]) -> Iterator[str]:
    while cases:
        begun = ""
        for line in told(folder, name, mode, *cases):
            begun = str(line.get("begun", begun))
            if line.get("wrong") or "ended" in line:
                yield f"{begun}: {line.get('wrong') or line['ended']}"
        assert begun in cases, "a process refused nothing"
        cases = cases[cases.index(begun) + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), CASES)
def test_the_calls_after_a_refused_one_are_right(
    name: str, mode: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    first, count = (request.config.getoption(option) for option in ("--fuzz-seed", "--fuzz-programs"))
    (counted,) = told(tmp_path, name, mode, "count")
    cases = refusals(counted)
    assert len(cases) > 20
    drawn = random.Random(first).sample(cases, min(len(cases), -(-count // FEWER)))
    assert "\n".join(wrong_after(tmp_path, name, mode, drawn)) == ""
