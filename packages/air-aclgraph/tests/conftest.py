"""Devices to run on, and the modules next to the tests, whatever the import mode.

torch is imported by the fixtures: the process that hands the tests out to workers reads this file too, and runs none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[2] / "air-fxpasses" / "tests"))  # for random_programs


@pytest.fixture(params=["cpu", pytest.param("npu", marks=pytest.mark.npu)])
def device(request: pytest.FixtureRequest) -> str:
    """Every test that asks for a device runs on the host runtime and on an NPU (or air-sim)."""
    import torch

    name: str = request.param
    if name == "npu" and not (hasattr(torch, "npu") and torch.npu.is_available()):
        pytest.skip("no npu: run with --sim in an environment with torch_npu")
    return name


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    import torch._dynamo

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()
