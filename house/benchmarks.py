"""The benchmarks of each package, and how each is started (`nox -s bench-aclgraph` for air-aclgraph)."""

from __future__ import annotations

from typing import NamedTuple


class Benchmark(NamedTuple):
    """A script of packages/<package>/benchmarks, and how it is started."""

    script: str
    simulated: bool = False
    writes_json: bool = False
    queue: str = "0"  # torch_npu's task queue, for simulated ones
    arguments: tuple[str, ...] = ()
    noop: bool = True  # whether the kernels of simulated ones do nothing


BENCHMARKS = {
    "air-config": (Benchmark("import_time.py"),),
    "air-fxpasses": (Benchmark("pipeline_cost.py", writes_json=True),),
    "air-streams": (Benchmark("plan_time.py", writes_json=True),),
    "air-aclgraph": (
        Benchmark("hot_path.py", simulated=True, writes_json=True),
        Benchmark("hot_path.py", simulated=True, writes_json=True, queue="1"),
        Benchmark("keys_and_pins.py", simulated=True, writes_json=True),
        Benchmark("growing_lengths.py", simulated=True, writes_json=True),
        Benchmark("many_keys.py", simulated=True, writes_json=True),
        Benchmark("capture_cost.py", simulated=True, writes_json=True, noop=False),
        Benchmark("host_decode.py", writes_json=True),
        Benchmark("bucket_cost.py", writes_json=True),
    ),
    "air-geir": (
        Benchmark("conversion.py", writes_json=True),
        Benchmark("reference_decode.py"),
        Benchmark("against_torchair.py", simulated=True, writes_json=True),
        Benchmark("engines.py", simulated=True),
    ),
    "air-backend": (
        Benchmark("first_call.py", writes_json=True),
        Benchmark("zoo_compile_time.py", writes_json=True),
        Benchmark("fused_kernels.py", writes_json=True),
        Benchmark("grouped_heads.py", writes_json=True),
        Benchmark("pieces_cost.py", writes_json=True),
        Benchmark("pieces_cost.py", arguments=("--device", "npu"), simulated=True, writes_json=True),
        Benchmark("training_step.py", simulated=True, writes_json=True),
    ),
}
