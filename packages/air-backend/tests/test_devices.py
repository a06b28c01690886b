"""Which device a graph belongs to, and what is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional
from torch.utils._pytree import tree_leaves

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


def beside(x: Tensor) -> tuple[Tensor, Tensor]:
    shapes = x.to("meta")
    return x.cos() * 2, (shapes @ shapes.t()).relu()


def alone(x: Tensor) -> Tensor:
    return torch.empty(x.shape, device="meta").t() + 1


def back(x: Tensor) -> Tensor:
    return torch.zeros_like(x.to("meta"), device=x.device) + x


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
@pytest.mark.parametrize("function", [beside, alone, back])
@pytest.mark.filterwarnings("ignore:.*GraphSplit")
def test_what_has_no_memory_runs_eagerly_between(function: Callable[..., Any], mode: Any) -> None:
    compiled = torch.compile(function, backend="air", mode=mode)
    for _ in range(3):
        x = torch.randn(3, 4)
        for found, expected in zip(tree_leaves(compiled(x)), tree_leaves(function(x)), strict=True):
            assert (found.device, found.shape, found.stride()) == (
                expected.device,
                expected.shape,
                expected.stride(),
            )
            if not found.is_meta:
                torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_a_model_on_meta_runs_eagerly_and_says_so(mode: Any) -> None:
    model = torch.nn.Linear(4, 3, device="meta")
    compiled = torch.compile(model, backend="air", mode=mode)
    with pytest.warns(UserWarning, match="a tensor on 'meta' has no memory"):
        result = compiled(torch.empty(2, 4, device="meta"))
    assert result.is_meta
    assert result.shape == (2, 3)


@pytest.mark.parametrize(
    ("mode", "option"),
    [("reduce-overhead", "air.uncapturable"), ("max-autotune", "air.unsupported")],
)
def test_a_tensor_on_meta_is_an_error_where_one_is_asked_for(mode: str, option: str) -> None:
    options: Any = {"mode": mode, option: "error"}
    compiled = torch.compile(beside, backend="air", options=options)
    with pytest.raises(BackendCompilerFailed, match="a tensor on 'meta' has no memory"):
        compiled(torch.ones(2, 2))


def test_marks_that_forward_mode_saves_for_the_backward_half_are_left_out() -> None:
    def slope(x: Tensor, w: Tensor) -> Tensor:
        def layer(x: Tensor) -> Tensor:
            attended = functional.scaled_dot_product_attention(w[None] * (w @ x), w[None], w[None])
            return torch.as_tensor(functional.group_norm(attended[0, :1], 2)[0])

        value, along = torch.func.linearize(layer, x)
        return torch.as_tensor(value + along(torch.ones_like(x)))

    x, w = torch.randn(4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    compiled = torch.compile(slope, backend="air", mode="reduce-overhead", dynamic=True)
    for _ in range(2):
        found, expected = compiled(x, w), slope(x, w)
        torch.testing.assert_close(found, expected)
        mine, theirs = (torch.autograd.grad(y.sum(), (x, w)) for y in (found, expected))
        torch.testing.assert_close(mine, theirs)
