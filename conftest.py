"""For the tests of every package: a sweep marked `sampled(n)` runs every n-th of its cases, and the others are slow.

Of a test that has cases on the CPU and cases on an accelerator, each ground has a sample, and the two are not of the
same cases. `-m slow` (`nox -s slow`, `nox -s npu-slow`) runs what is left out.

Python's search for cycles looks at everything again that torch and Dynamo made when they were imported, whenever there
is enough new. Here it does not, and searches less often: a tenth less time for tests that trace models. Dynamo times
the guards of each graph with the processor's caches flushed, for its log: an eighth of the time of tests that compile.
Here it does not. pytest listens to every logger that hands nothing up, also to the one for torch's structured trace;
torch then prints each graph for it. Here that logger hands up, and nobody listens unless TORCH_TRACE asks for it. For
each sample of an operator torch looks for a unittest on the stack, and there is none.

torch is stricter where the variable `CI` is set: so it is for everybody here.

A test that leaves the process changed (gradients off, another default dtype, a device's autocast) is an error of that
test: the tests that follow it in the process would fail, and which ones is up to chance.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections import defaultdict
from collections.abc import Generator
from typing import Any, Final

import pytest

# new objects before the youngest are searched: the usual 700 are few for imports of torch and programs that make graphs
gc.set_threshold(20_000, 20, 100)
os.environ.setdefault("CI", "1")  # before torch is imported
#: What torch does for nobody here: module, function, and what is called instead of it.
INSTEAD: Final = (
    ("torch._dynamo.guards", "profile_guard_manager", lambda *_: 0.0),
    ("torch.testing._internal.common_utils", "extract_test_fn", lambda: None),
    ("torch.testing._internal.opinfo.core", "extract_test_fn", lambda: None),
)
#: What torch had set before a test.
BEFORE: Final = pytest.StashKey[Any]()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    if "TORCH_TRACE" not in os.environ:
        traced = logging.getLogger("torch.__trace")
        traced.propagate, traced.handlers = True, []
    for module, name, instead in INSTEAD:
        if hasattr(imported := sys.modules.get(module), name):
            vars(imported)[name] = instead


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    sweeps: dict[tuple[str, bool], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            on_device = any(item.get_closest_marker(mark) for mark in ("accelerator", "npu"))
            sweeps[item.nodeid.partition("[")[0], on_device].append(item)
    for (_, on_device), cases in sweeps.items():
        first = int(on_device and len(cases) > 1)
        for number, item in enumerate(cases):
            sampled = item.get_closest_marker("sampled")
            if sampled and number % sampled.args[0] != first:
                item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    item.stash[BEFORE] = _state()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    done = yield
    before = item.stash[BEFORE]
    if before is not None and not before.check():
        changed = before.reason().strip()
        if "grad_mode" in changed:
            sys.modules["torch"].set_grad_enabled(True)
        pytest.fail(f"the test leaves torch changed: {changed}", pytrace=False)
    return done


def _state() -> Any:
    """What torch has set for the whole process, as Dynamo guards it; None before torch is imported."""
    guards = sys.modules.get("torch._C._dynamo.guards")
    return guards.GlobalStateGuard() if guards else None
