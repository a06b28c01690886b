"""Cases are made from a seed, hold what eager runs, and draw on every row of the tables."""

from __future__ import annotations

import random
import re

import pytest
import torch

from air_graph.testing import _computes, _views, _waits, _writes, draw_case, run_case
from air_graph.testing._rows import Row
from air_graph.testing._run import without_dynamo
from air_graph.testing._scope import Scope, overlaps_itself, overlaps_partly

ROWS = (
    *_views.VIEWS,
    *_writes.WRITES,
    *_writes.OUTS,
    *_writes.FOREACH,
    *_computes.ARITHMETIC,
    *_computes.COPIES,
    *_computes.READS,
    *_computes.REDUCTIONS,
    *_computes.PRODUCTS,
    *_computes.COMPLEX,
    *_computes.CASTS,
    *_waits.WAITS,
)
CASES = 100


def values() -> dict[str, torch.Tensor]:
    """Something for every row."""
    numbers = torch.arange(-12.0, 12.0) / 4
    return {
        "a": numbers[:16].reshape(4, 4).clone(),
        "b": (numbers[:16] / 2).reshape(4, 4).clone(),
        "c": numbers[:12].reshape(3, 4).clone(),
        "d": numbers.reshape(2, 3, 4).clone(),
        "e": numbers.reshape(2, 3, 2, 2).clone(),
        "g": torch.arange(6) - 2,
        "h": torch.arange(6) % 2 == 0,
        "i": (numbers[:6] * (1 - 0.5j)).reshape(2, 3),
        "j": numbers[:6].clone(),
        "k": (numbers[:6] + 1).clone(),
        "m": torch.arange(16).reshape(4, 4),
        "n": numbers[:4].reshape(2, 2).clone(),
    }


@pytest.mark.parametrize("row", ROWS, ids=[f"{at}-{row.name}" for at, row in enumerate(ROWS)])
def test_every_row_is_drawn_for_tensors_that_fit_it(row: Row) -> None:
    drawn = (row.draw(Scope(random.Random(seed), values())) for seed in range(300))
    assert any(drawn), row.text


def test_a_seed_makes_the_same_case_again() -> None:
    for seed in range(20):
        assert draw_case(seed) == draw_case(seed)


def test_eager_runs_every_case_that_is_drawn() -> None:
    for seed in range(CASES):
        case = draw_case(seed)
        if case is not None:
            trace = run_case(case)
            assert trace.raised is None, f"{seed}: {trace.failed}: {trace.raised}\n{case}"


def test_a_case_runs_in_eager_alike_twice() -> None:
    for seed in range(20):
        case = draw_case(seed)
        if case is not None:
            one, other = run_case(case), run_case(case)
            assert [list(s.seen) for s in one.steps] == [list(s.seen) for s in other.steps]


def test_scripts_do_all_that_a_caller_can_do() -> None:
    scripts = "\n".join("\n".join(case.script) for seed in range(300) if (case := draw_case(seed)))
    for what in (
        r"r1 = f\(",
        r"f\(r\d",
        r"\.backward\(\)",
        r"autograd\.grad\(",
        r"\.grad, None$",
        r"^b0 = a0$",
        r"^b0 = a0\[",
        r"^a\d\S*\.mul_\(2\)",
        r"^r\d\S*\.\w+_\(",
        r"^del r",
        r"\.expand\(",
        r"channels_last",
        r"\[3:\]\.reshape",
        r"torch\.arange\(0\)",
        r"reshape\(\(\)\)",
    ):
        assert re.search(what, scripts, re.MULTILINE), what


def test_programs_on_a_device_make_their_inputs_there() -> None:
    cases = [case for seed in range(8) if (case := draw_case(seed, device="meta")) is not None]
    assert cases
    lines = [line for case in cases for line in case.script if "arange" in line]
    there = ['device="meta"' in line for line in lines]
    assert all(there) is False  # some lie in the memory of the CPU, whatever the device is
    assert sum(there) > len(there) / 2


def test_a_tensor_that_overlaps_itself_is_no_target() -> None:
    base = torch.arange(6.0)
    assert overlaps_itself(base.as_strided((2, 2), (1, 1)))
    assert overlaps_itself(base[:1].expand(3))
    assert not overlaps_itself(base.as_strided((2, 2), (3, 1)))
    assert not overlaps_itself(base.reshape(2, 3).t())


def test_a_source_that_overlaps_the_target_elsewhere_is_told_from_the_same_one() -> None:
    base = torch.arange(6.0)
    assert overlaps_partly(base[1:], base[:-1])
    assert overlaps_partly(base, base.view(torch.int16)[2:4])
    assert not overlaps_partly(base, base[:])
    assert not overlaps_partly(base[:3], base[3:])
    assert not overlaps_partly(base, base.clone())


def test_branches_of_torch_cond_are_drawn_without_dynamo() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    with without_dynamo():
        torch.cond(torch.ones(2).sum() > 0, lambda p: p * 2, lambda p: p - 1, (torch.ones(2),))
    assert not torch._dynamo.utils.counters["frames"]
