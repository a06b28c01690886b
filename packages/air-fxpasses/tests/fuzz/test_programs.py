"""Random programs through every combination of passes: what eager computes, the graph computes.

`--fuzz-programs N` sets the number of programs. Each runs with all passes on and with one more combination,
so that every combination is met many times; for the properties that cost more a part of N is drawn. A failing
program is printed as the bytes it was made from.
"""

from __future__ import annotations

import itertools
import struct
from collections import Counter
from collections.abc import Callable

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

from air_fxpasses import Pass, Pipeline, default_passes
from air_fxpasses.testing import Outcome, copied, difference
from random_programs import FUNCTIONAL, IMPERATIVE, SQUARE, VARIED, Program, build_program

_SWITCHED = (
    "reinplace_inplaceable", "reinplace_input_mutated", "remove_noop", "eliminate_cat", "recover_view_inplace",
    "read_repeats_once", "reuse_values",
)  # fmt: skip
SHARDS = 4  # so that several workers share the programs
REPEATABLE = 5000  # up to so many programs are the same in every run
BYTES = st.binary(min_size=200, max_size=200)
# of the twelve kinds of programs
_DYNAMIC = (7, 9)
_SHORT = (3, 6)
#: What is left out; nothing in the first one.
COMBINATIONS = [
    frozenset(itertools.compress(_SWITCHED, bits))
    for bits in itertools.product((0, 1), repeat=len(_SWITCHED))
]


def choices_of(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 2}H", data[: len(data) // 2 * 2])


def program_of(data: bytes, kind: int) -> Program:
    """Mostly functional programs; one in four writes in place, one in three is of square values, one in six is
    short, and one in six has symbolic sizes."""
    return build_program(
        choices_of(data),
        IMPERATIVE if kind % 4 == 0 else FUNCTIONAL,
        length=6 if kind in _SHORT else 12,
        is_dynamic=kind in _DYNAMIC,
        sizes=SQUARE if kind % 3 == 0 else VARIED,
    )


def passes(off: frozenset[str]) -> tuple[Pass, ...]:
    return default_passes(lambda one: one.name not in off)


def check(program: Program, off: frozenset[str], verify: bool = False) -> Counter[str]:
    gm = program.copy()
    pipeline = Pipeline(passes(off), recompile=False, verify=verify)
    report = pipeline.run(gm, program.inputs)
    gm.graph.lint()
    assert program.difference(gm) is None, (
        f"without {sorted(off)}: {program.difference(gm)}\n{program.gm.graph}\n{gm.graph}"
    )
    assert not any(step.rolled_back for step in report.steps), report.explain()
    return Counter(step.name for step in report.steps if step.modified)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_combination_of_passes_computes_what_eager_computes(
    request: pytest.FixtureRequest, shard: int
) -> None:
    total: int = request.config.getoption("--fuzz-programs")
    count = total // SHARDS
    acted: Counter[str] = Counter()
    programs = itertools.count()

    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(
        data=BYTES,
        kind=st.integers(0, 11),
        combination=st.integers(1, len(COMBINATIONS) - 1),
    )
    def prove(data: bytes, kind: int, combination: int) -> None:
        program = program_of(data, kind)
        next(programs)
        acted.update(check(program, COMBINATIONS[0]))
        check(program, COMBINATIONS[combination])

    if total <= REPEATABLE:
        prove = hypothesis.seed(shard)(prove)
    prove()
    print(f"{next(programs)} programs, passes that acted: {dict(acted)}")
    for name in ("remove_noop", "eliminate_cat", "reinplace_inplaceable", "reinplace_input_mutated"):
        assert acted[name] >= count // 200, f"{name} acted on {acted[name]} of {count} programs only"


@pytest.fixture
def repeatable(request: pytest.FixtureRequest) -> Callable[[int], hypothesis.settings]:
    """Settings for one of so many programs, the same ones in every run."""
    total: int = request.config.getoption("--fuzz-programs")
    return lambda part: hypothesis.settings(
        max_examples=total // part, deadline=None, database=None, derandomize=True
    )


def test_all_combinations_agree_on_one_program(repeatable: Callable[[int], hypothesis.settings]) -> None:
    @repeatable(80)
    @hypothesis.given(data=BYTES, kind=st.integers(0, 11))
    def prove(data: bytes, kind: int) -> None:
        program = program_of(data, kind)
        for combination in COMBINATIONS:
            check(program, combination)

    prove()


def test_every_step_is_proven_and_none_is_rolled_back(
    repeatable: Callable[[int], hypothesis.settings],
) -> None:
    @repeatable(30)
    @hypothesis.given(data=BYTES, kind=st.integers(0, 11))
    def prove(data: bytes, kind: int) -> None:
        check(program_of(data, kind), COMBINATIONS[0], verify=True)

    prove()


def test_functionalised_writes_are_written_back(repeatable: Callable[[int], hypothesis.settings]) -> None:
    repeatable(20)(hypothesis.given(data=BYTES, combination=st.integers(0, 31))(written_back))()


def written_back(data: bytes, combination: int) -> None:
    """The writes of a program, made functional by torch, and made writes again by the passes."""
    program = build_program(choices_of(data), IMPERATIVE)
    functional = torch.func.functionalize(program.gm, remove="mutations")
    inputs = copied(program.inputs)
    try:
        gm = make_fx(functional, tracing_mode="fake")(*copied(program.inputs))
        eager = Outcome(tuple(gm(*inputs)), tuple(inputs))
    except (RuntimeError, NotImplementedError, AssertionError):
        hypothesis.reject()  # torch cannot make it functional, or made a graph that leaves a storage
    Pipeline(passes(COMBINATIONS[combination])).run(gm, program.inputs)
    inputs = copied(program.inputs)
    assert difference(eager, Outcome(tuple(gm(*inputs)), tuple(inputs))) is None, gm.graph
