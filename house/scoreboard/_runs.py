"""The benchmarks that the scoreboard starts, in their whole and in their reduced form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from house.scoreboard._records import Ground

LIMIT_S: Final = {False: 3600, True: 1200}
"""How long one benchmark may take: whole, reduced."""


class Run(NamedTuple):
    """One benchmark on one ground."""

    key: str
    ground: Ground
    script: str
    """package/file"""
    whole: str = ""
    """Arguments."""
    quick: str = ""
    """Arguments of the reduced form."""
    noop: bool = True
    """Whether kernels of air-sim do nothing."""


RUNS: Final = (
    *(
        Run(f"hot path, {n}", "sim", "air-aclgraph/hot_path.py", f"--parameters {n}",
            f"--rounds 6 --models 1 --parameters {n}")
        for n in (288, 1000)
    ),
    Run("parameters", "sim", "air-aclgraph/hot_path.py", "--no-peers --parameters 288 1000 2000 5000",
        "--no-peers --rounds 6 --models 1 --parameters 288 1000 5000"),
    Run("pins", "sim", "air-aclgraph/keys_and_pins.py", "", "--rounds 6 --parameters 288"),
    Run("lengths", "sim", "air-aclgraph/growing_lengths.py", "", "--rounds 6 --layers 8"),
    Run("training", "sim", "air-backend/training_step.py", "", "--rounds 4 --blocks 2"),
    Run("keys", "sim", "air-aclgraph/many_keys.py", "", "--rounds 60"),
    Run("conversion", "sim", "air-geir/against_torchair.py", "--layers 32", "--layers 8 --calls 90", noop=False),
    Run("fused", "cpu", "air-backend/fused_kernels.py", "", "--rounds 20"),
    Run("decode", "cpu", "air-aclgraph/host_decode.py", "", "--rounds 10"),
    Run("first call", "cpu", "air-backend/first_call.py", "", "--rounds 1"),
    Run("zoo", "cpu", "air-backend/zoo_compile_time.py", "--models 24", "--models 4"),
    Run("nodes", "cpu", "air-geir/conversion.py", "--nodes 2500 10000 50000", "--nodes 2500 10000 50000"),
    Run("passes", "cpu", "air-fxpasses/pipeline_cost.py", "--nodes 50000", "--nodes 10000 --rounds 2"),
    *(
        Run(f"plan, {streams} streams", "cpu", "air-streams/plan_time.py",
            f"--nodes 5000 50000 --streams {streams}", f"--rounds 2 --nodes 5000 50000 --streams {streams}")
        for streams in (2, 8, 32)
    ),
    Run("gpu decode", "cuda", "air-backend/gpu_decode.py", "--batches 1 8 64", "--batches 1 8 64 --layers 4"),
    Run("gpu models", "cuda", "air-backend/gpu_models.py", "", "--layers 4 --rounds 5"),
    Run("gpu generate", "cuda", "air-backend/gpu_generate.py", "", "--layers 4 --rounds 1"),
    Run("gpu shapes", "cuda", "air-backend/gpu_shapes.py", "", "--layers 1"),
    Run("gpu fused", "cuda", "air-backend/fused_kernels.py", "--device cuda", "--device cuda --rounds 20"),
)  # fmt: skip


class BenchmarkFailed(RuntimeError):
    """A benchmark ended with an error, or ran out of time."""


def results(root: Path, ground: Ground, only: list[str], *, quick: bool) -> Iterator[tuple[str, Any]]:
    """What each benchmark of a ground wrote, or the error it ended with."""
    for run in RUNS:
        if run.ground == ground and (not only or run.key in only):
            sys.stdout.write(f"== {run.key}, {ground}\n")
            sys.stdout.flush()
            try:
                yield run.key, result(root, run, quick=quick)
            except BenchmarkFailed as error:
                yield run.key, error


def result(root: Path, run: Run, *, quick: bool) -> Any:
    """The JSON that a benchmark writes."""
    package, _, file = run.script.partition("/")
    script = root / "packages" / package / "benchmarks" / file
    start = ["air-sim", "run", "python"] if run.ground == "sim" else [sys.executable]
    arguments = (run.quick if quick else run.whole).split()
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "result.json"
        command = [*start, str(script), *arguments, "--json", str(kept)]
        try:
            subprocess.run(command, env=environment(run), check=True, timeout=LIMIT_S[quick])
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            raise BenchmarkFailed(f"{run.key}, {run.ground}: {error}") from error
        return json.loads(kept.read_text())


def environment(run: Run) -> dict[str, str]:
    """One thread; on air-sim the queue of torch_npu is off, so that its work is that of the calling thread."""
    simulated = run.ground == "sim"
    wanted = {
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(simulated)),
    }
    if simulated:
        wanted |= {"TASK_QUEUE_ENABLE": "0", "AIR_SIM_NOOP": str(int(run.noop))}
    return {**os.environ, **wanted}
