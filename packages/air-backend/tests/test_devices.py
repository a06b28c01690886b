"""Which device a graph belongs to, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from air_backend import _devices
from air_backend.errors import MixedDevices, UnsupportedDevice
from forked import run_python


def graph(*devices: str) -> torch.fx.GraphModule:
    """A graph that adds a number to a tensor of each device."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        tensors = [torch.empty(2, device=device) for device in devices]
        return make_fx(lambda *xs: [x + 1 for x in xs], tracing_mode="real")(*tensors)


def test_a_graph_of_cpu_tensors_runs_on_the_host() -> None:
    assert _devices.ground_of(graph("cpu", "cpu")) == torch.device("cpu")


def test_cpu_tensors_beside_an_accelerator_do_not_change_its_ground() -> None:
    assert _devices.ground_of(graph("cpu", "cuda")).type == "cuda"


def test_a_device_that_no_executor_serves_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedDevice, match="'xpu'") as failure:
        _devices.ground_of(graph("xpu"))
    assert "npu, cuda, cpu" in failure.value.advice


def test_two_devices_in_one_graph_are_refused_with_the_line() -> None:
    gm = graph("cpu", "cpu")
    nodes = [node for node in gm.graph.nodes if node.op == "call_function"]
    with FakeTensorMode():
        nodes[0].meta["val"] = torch.empty(2, device="cuda:0")
        nodes[1].meta["val"] = torch.empty(2, device="cuda:1")
    nodes[1].meta["stack_trace"] = '  File "model.py", line 7, in forward\n    y = x.to(other)\n'
    with pytest.raises(MixedDevices, match=r"cuda:0, cuda:1") as failure:
        _devices.ground_of(gm)
    assert "model.py:7   y = x.to(other)" in str(failure.value)


def test_max_autotune_on_cuda_is_refused_with_the_mode_that_serves_it() -> None:
    with pytest.raises(UnsupportedDevice, match="reduce-overhead"):
        _devices.serve(torch.device("cuda", 0), "max-autotune")


def test_S27_a_second_npu_in_one_process_is_refused(tmp_path: Path) -> None:
    code = """
import torch
torch.utils.rename_privateuse1_backend("npu")
from air_backend import _devices
from air_backend.errors import SecondDevice
assert _devices._one_npu(torch.device("npu", 0)) == _devices._one_npu(torch.device("npu", 0))
try:
    _devices._one_npu(torch.device("npu", 1))
except SecondDevice as refused:
    assert "npu:1" in str(refused) and "torchrun" in refused.advice
else:
    raise AssertionError("the second device was accepted")
"""
    done = run_python(code, folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_meta_tensor_computation_reaches_the_user_as_a_backend_error() -> None:
    @torch.compile(backend="air", mode="reduce-overhead")
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    with pytest.raises(BackendCompilerFailed, match="meta"):
        function(torch.empty(2, device="meta"))
