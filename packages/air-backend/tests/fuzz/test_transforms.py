"""Compositions of `torch.func` that nobody chose give in a compiled function what they give in eager.

`--fuzz-programs N` sets how many of them each mode runs, `--fuzz-seed S` with which one it begins. What eager refuses
is not judged, and what torch alone refuses or gets wrong is left out.
"""

from __future__ import annotations

import contextlib
import gc
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from air_graph import collector_paused
from forked import on_air_sim, run_python
from transforms import Composition, batched, slope

SHARDS = 2  # so that several workers share the compositions of a mode
ON_NPU = 10  # so many times fewer there
MODES = ("reduce-overhead", "max-autotune")


def is_same(expected: Tensor | None, found: Tensor | None) -> bool:
    """No gradient is one of zeros."""
    if expected is None or found is None:
        one = found if expected is None else expected
        return one is None or not bool(one.abs().sum() > 1e-6)
    return expected.shape == found.shape and torch.allclose(
        expected, found, rtol=2e-3, atol=1e-4, equal_nan=True
    )


@contextlib.contextmanager
def no_guard_left() -> Iterator[None]:
    """Frees what Dynamo's errors hold where that does no harm, and leaves this thread as it was.

    An error in a level of `torch.func` keeps a guard of functorch alive, in a cycle. With any backend, the collector
    that frees it gives the thread the dispatch keys of that level: what runs then fails, in eager as well.
    """
    keys = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    with torch._C._ForceDispatchKeyGuard(*keys):  # they are there again when it ends
        try:
            with collector_paused():
                yield
        finally:
            torch._dynamo.reset()
            gc.collect()


def told(drawn: Composition, device: str, expected: list[Tensor | None], **backend: Any) -> str | None:
    """How a composition that is compiled differs from eager."""
    torch._dynamo.reset()
    run: Any = torch.compile(drawn.function, dynamic=drawn.dynamic, **backend)
    try:
        found = drawn.played(run, device)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if len(found) != len(expected):
        return f"{len(found)} values instead of {len(expected)}"
    wrong = [number for number, pair in enumerate(zip(expected, found, strict=True)) if not is_same(*pair)]
    return f"values {wrong} differ" if wrong else None


def difference_of(drawn: Composition, mode: str, device: str) -> str | None:
    """How a composition differs from eager, where torch alone does not."""
    try:
        expected = drawn.played(drawn.function, device)
    except Exception:  # eager has no such derivative
        return None
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        found = told(drawn, device, expected, backend="air", options={"mode": mode})
    if found is None or not is_right_with_torch_alone(drawn, device):
        return None
    return f"{drawn}: {found}"


def is_right_with_torch_alone(drawn: Composition, device: str) -> bool:
    """Asked in a process of its own: an error can leave this one harmed, and some compositions crash torch."""
    places = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    program = f"""
import sys
sys.path[:0] = {places!r}
import torch
from test_transforms import told
from transforms import Composition
drawn = Composition.drawn({drawn.seed})
expected = drawn.played(drawn.function, {device!r})
with torch._dynamo.config.patch(trace_autograd_ops=True):
    sys.exit(told(drawn, {device!r}, expected, backend="aot_eager"))
"""
    run = on_air_sim if device == "npu" else run_python
    with tempfile.TemporaryDirectory() as folder:
        return run(program, folder=Path(folder)).returncode == 0


def check(mode: str, seeds: range, device: str) -> None:
    found = []
    for seed in seeds:
        with no_guard_left():
            found.append(difference_of(Composition.drawn(seed), mode, device))
    assert [text for text in found if text is not None] == []


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore")
def test_random_compositions_of_transforms_give_what_eager_gives(
    mode: str, shard: int, request: pytest.FixtureRequest
) -> None:
    first, programs = (request.config.getoption(name) for name in ("--fuzz-seed", "--fuzz-programs"))
    check(mode, range(first + shard, first + programs, SHARDS), "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore")
def test_random_compositions_of_transforms_on_a_device_give_what_eager_gives(
    accelerator: str, mode: str, request: pytest.FixtureRequest
) -> None:
    first, programs = (request.config.getoption(name) for name in ("--fuzz-seed", "--fuzz-programs"))
    check(mode, range(first, first + max(programs // ON_NPU, 1)), accelerator)


def test_the_judge_sees_a_derivative_that_is_wrong() -> None:
    drawn = Composition(0, (9, 12), (slope, batched), False, (True, True))
    expected = drawn.played(drawn.function, "cpu")
    assert told(drawn, "cpu", expected, backend="eager") is None
    spoilt = [None if one is None else one * 1.01 + 0.01 for one in expected]
    assert told(drawn, "cpu", spoilt, backend="eager") is not None


def test_torch_alone_is_asked_in_a_process_of_its_own() -> None:
    assert is_right_with_torch_alone(Composition.drawn(14960031), "cpu")
    assert not is_right_with_torch_alone(Composition.drawn(14960031), "meta")  # nothing there to compare


def test_most_compositions_have_derivatives_in_eager() -> None:
    refused = 0
    for seed in range(40):
        drawn = Composition.drawn(seed)
        try:
            drawn.played(drawn.function, "cpu", calls=1)
        except Exception:
            refused += 1
    assert refused < 20


def test_a_guard_that_an_error_keeps_alive_leaves_the_thread_as_it_was() -> None:
    def fails_inside() -> None:
        with torch._C._DisableTorchDispatch():
            held: list[Any] = [torch._C._DisableFuncTorch()]
            held.append(held)

    before = str(torch._C._dispatch_tls_local_exclude_set())
    with no_guard_left():
        fails_inside()
    assert str(torch._C._dispatch_tls_local_exclude_set()) == before
