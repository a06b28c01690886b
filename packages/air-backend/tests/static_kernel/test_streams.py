"""Streams keep their meaning under run_eagerly, with static kernels and without."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import air_backend as tng
from air_backend import CompilerConfig, _records


class Branches(torch.nn.Module):
    """Two streams: the second waits for the first, and the end waits for the second."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = tng.ops.npu_create_tagged_event(tag=f"ready {id(self)}")
        self.done = tng.ops.npu_create_tagged_event(tag=f"done {id(self)}")

    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        tng.ops.npu_tagged_event_record(self.ready)
        with tng.scope.npu_stream_switch("side"):
            tng.ops.npu_tagged_event_wait(self.ready)
            z = y + 1
            tng.ops.npu_tagged_event_record(self.done)
        tng.ops.npu_tagged_event_wait(self.done)
        return z * 3


def run(config: CompilerConfig, device: str) -> Any:
    config.mode = "reduce-overhead"
    config.debug.run_eagerly = True
    call: Any = torch.compile(
        Branches(), backend=tng.get_npu_backend(compiler_config=config), dynamic=False, fullgraph=True
    )
    for value in (1.0, 2.0):
        x = torch.full((64, 64), value).to(device)
        torch.testing.assert_close(call(x).cpu(), torch.full((64, 64), (value * 2 + 1) * 3))
    ((record, executed),) = _records.alive()
    assert record.plan.is_multi_stream
    assert record.executor == "run_eagerly"
    return executed


def test_S06_streams_act_in_a_graph_that_runs_eagerly() -> None:
    run(CompilerConfig(), "cpu")


@pytest.mark.npu("air-sim counts the calls")
def test_S06_S07_events_are_recorded_and_waited_for_beside_static_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import air_sim

    for name in ("opp", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path / "opp"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    config = CompilerConfig()
    config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
    config.experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir = str(tmp_path)
    waits, captures = air_sim.calls("aclrtStreamWaitEvent"), air_sim.calls("aclmdlRICaptureBegin")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        executed = run(config, "npu")
    assert air_sim.calls("aclrtStreamWaitEvent") - waits >= 4, "two waits in each of two calls"
    assert air_sim.calls("aclmdlRICaptureBegin") == captures
    (report,) = executed.explain()["static kernels"]
    assert report["compiled"] == 3


@pytest.mark.npu("air-sim counts the calls")
def test_S06_what_a_block_makes_is_there_when_the_graph_that_runs_eagerly_returns() -> None:
    """The plan's fork and join act there too; the waits between the two streams are those that "auto" inserts."""
    import air_sim

    def unwaited(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        with tng.scope.npu_stream_switch("side"):
            z = y + 1
        return z, z * 3

    config = CompilerConfig()
    config.mode = "reduce-overhead"
    config.debug.run_eagerly = True
    config.set("air.sync", "auto")
    backend = tng.get_npu_backend(compiler_config=config)
    call: Any = torch.compile(unwaited, backend=backend, dynamic=False, fullgraph=True)
    air_sim.change(seed=7, delay_us=2000)
    try:
        waits = air_sim.calls("aclrtStreamWaitEvent")
        for value in range(20):
            z, tripled = call(torch.full((64, 64), float(value)).to("npu"))
            assert float((z + 0)[0, 0].cpu()) == 2 * value + 1
            assert float(tripled[0, 0].cpu()) == 3 * (2 * value + 1)
        assert air_sim.calls("aclrtStreamWaitEvent") - waits >= 40, "the block still has a stream of its own"
    finally:
        air_sim.change(seed=0, delay_us=0)
    ((record, _),) = _records.alive()
    assert record.executor == "run_eagerly"
