"""For the tests of every package: a sweep marked `sampled(n)` runs every n-th of its cases, and the others are slow.

Of a test that has cases on the CPU and cases marked `npu`, each ground has a sample, and the two are not of the same
cases. `-m slow` (`nox -s slow`, `nox -s npu-slow`) runs what is left out.
"""

from __future__ import annotations

from collections import Counter

import pytest


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen: Counter[tuple[str, bool]] = Counter()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is None or item.get_closest_marker("slow"):
            continue
        on_npu = item.get_closest_marker("npu") is not None
        sweep = (item.nodeid.partition("[")[0], on_npu)
        if (seen[sweep] + on_npu) % sampled.args[0]:
            item.add_marker(pytest.mark.slow)
        seen[sweep] += 1
