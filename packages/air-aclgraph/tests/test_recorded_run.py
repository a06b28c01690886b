"""The run of the accelerator's tests on a GPU that is kept beside the benchmarks: CI has no GPU of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

RECORD = Path(__file__).resolve().parents[3] / "benchmarks/results/accelerator-cuda.json"


@pytest.mark.skipif(not RECORD.exists(), reason="needs the repository around the package")
@pytest.mark.parametrize("package", ["air-streams", "air-aclgraph", "air-backend"])
def test_N20_the_kept_run_on_a_gpu_has_no_failure(package: str) -> None:
    record = json.loads(RECORD.read_text())
    assert record["ground"] == "cuda"
    assert record["packages"][package]["passed"]
    assert record["packages"][package]["failed"] == []
