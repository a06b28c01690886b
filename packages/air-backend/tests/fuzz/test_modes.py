"""Random programs and call sequences through both modes: what a caller of eager sees, a caller of AIR sees.

`--fuzz-programs N` sets how many programs each mode runs, `--fuzz-seed S` with which one it begins. What differs is
printed shrunk; `python -m air_graph.testing --backend air --mode MODE --seed S --programs 1` runs one seed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
import torch

from air_graph.testing import FAMILIES, Judge, Order, Report, campaign, in_processes
from fuzz.campaigns import IGNORED, MODES, ON_NPU, REFUSED_AT_MOST

Options = Mapping[str, Any]

SHARDS: Final = 2  # so that several workers share the programs of a mode
IN_ONE_PROCESS: Final = 500

#: Options that change how a graph is run and nothing that its caller sees; most programs are run without.
PASSES: Final[tuple[Options, ...]] = (
    {"air.verify": True},
    {"air.view_inplace": False},
    {"debug.run_eagerly": True},
    {"experimental_config.remove_noop_ops": False},
    {"experimental_config.pattern_fusion_pass": False},
    {"experimental_config.keep_inference_input_mutations": False},
)
VARIED: Final[Mapping[str, tuple[Options, ...]]] = {
    "reduce-overhead": (
        *PASSES,
        {"air.outputs": "clone"},
        {"air.adaptive_slots": 2},
        {"air.adopt_inputs": True},
        {"air.warmup": 0},
        {"debug.aclgraph.clone_input": False},
        {"debug.aclgraph.remove_cat_ops": False},
        {"debug.aclgraph.static_capture_size_limit": 1},
        {"debug.aclgraph.disable_reinplace_inplaceable_ops_pass": True},
        {"debug.aclgraph.disable_reinplace_input_mutated_ops_pass": True},
        {"debug.aclgraph.disable_mempool_reuse_in_same_fx": True},
        {"debug.aclgraph.force_recapture": True},
    ),
    "max-autotune": (
        *PASSES,
        {"air.unsupported": "eager"},
        {"experimental_config.enable_view_optimize": False},
        {"experimental_config.enable_ref_data": True},
    ),
}


#: What cuts a graph into pieces, and what lies on both sides of a cut.
CUT: Final = ("views", "writes", "arithmetic", "flow", *("waits",) * 5)


#: What kernels of Inductor are made of; each takes the compiler of C++ a second or more.
FUSED: Final = (*FAMILIES, *("writes",) * 4)
WITH_KERNELS: Final = 10  # so many times fewer programs


def run(mode: str, seeds: range, device: str, families: Sequence[str]) -> Report:
    """A short campaign in this process, a long one in others that are replaced now and then."""
    judge = Judge("air", {"mode": mode}, IGNORED[mode])
    plain: Mapping[str, Any] = {}
    options = (plain,) * len(VARIED[mode]) + VARIED[mode]
    if len(seeds) <= IN_ONE_PROCESS:
        return campaign(judge, seeds, options, device, families)
    return in_processes(Order(judge, options, device, families), seeds)


def check(mode: str, seeds: range, device: str, families: Sequence[str] = tuple(FAMILIES)) -> None:
    report = run(mode, seeds, device, families)
    print(report)
    assert report.programs == len(seeds)
    assert not report.findings, str(report)
    assert report.refused.total() <= REFUSED_AT_MOST * len(seeds), str(report)


def seeds_of(request: pytest.FixtureRequest, shard: int, divisor: int = 1) -> range:
    programs: int = request.config.getoption("--fuzz-programs") // divisor
    first: int = request.config.getoption("--fuzz-seed")
    return range(first + shard, first + programs, SHARDS)


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("mode", MODES)
def test_random_programs_give_their_caller_what_eager_gives(
    mode: str, shard: int, request: pytest.FixtureRequest
) -> None:
    check(mode, seeds_of(request, shard), "cpu")


@pytest.mark.parametrize("mode", MODES)
def test_N23_random_programs_that_are_cut_give_their_caller_what_eager_gives(
    mode: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for of_data in ("DYNAMIC_OUTPUT_SHAPE_OPS", "SCALAR_OUTPUTS"):  # for processes that are started
        monkeypatch.setenv(f"TORCHDYNAMO_CAPTURE_{of_data}", "1")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
        check(mode, seeds_of(request, 0, SHARDS), "cpu", CUT)


@pytest.mark.slow
def test_N24_random_programs_with_kernels_of_inductor_give_their_caller_what_eager_gives(
    request: pytest.FixtureRequest,
) -> None:
    options = {"mode": "reduce-overhead", "air.kernels": "inductor"}
    judge = Judge("air", options, IGNORED["max-autotune"], references=("aot_eager", "inductor"))
    seeds = seeds_of(request, 0, WITH_KERNELS)
    report = campaign(judge, seeds, ({},), "cpu", FUSED)
    print(report)
    assert report.programs == len(seeds)
    assert not report.findings, str(report)


@pytest.mark.slow  # one aborted stream ends every test after it in the same process
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("mode", MODES)
def test_random_programs_on_a_device_give_their_caller_what_eager_gives(
    accelerator: str, mode: str, shard: int, request: pytest.FixtureRequest
) -> None:
    check(mode, seeds_of(request, shard, ON_NPU), accelerator)
