"""Wrong uses that need a device: class, line and advice, as in `test_wrong_uses.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed

import air_backend as air
from air_backend import CompilerConfig, _devices
from air_backend.errors import SecondDevice


def raised(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[str, str]:
    """The class and the text of the error of a compiled call."""
    errors = {"air.uncapturable": "error", "air.unsupported": "error"}
    given = {"mode": "reduce-overhead", **errors, **options}
    compiled = torch.compile(function, backend="air", options=given, fullgraph=True, dynamic=False)

    def call() -> None:
        compiled(*args)
        torch.accelerator.synchronize()

    with pytest.raises(Exception) as failure:
        call()
    error = failure.value
    cause = error.inner_exception if isinstance(error, BackendCompilerFailed) else error
    return type(cause).__name__, str(error)


def x(device: str = "npu") -> Tensor:
    return torch.randn(4, 4).to(device)


def named(text: str, function: Callable[..., Any], offset: int) -> bool:
    """Whether the text names the line of a function so many lines below its `def`."""
    code = function.__code__
    return any(
        f"{code.co_filename}{mark}{code.co_firstlineno + offset}" in text for mark in (":", '", line ')
    )


def test_a_shape_that_depends_on_data(accelerator: str) -> None:
    def function(a: Tensor) -> Tensor:
        return torch.nonzero(a)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        kind, text = raised(function, x(accelerator))
    assert kind == "IllegalDuringCapture"
    assert "out of the compiled function" in text
    assert named(text, function, 1)


def test_a_host_that_waits_for_the_device_inside_the_graph(accelerator: str) -> None:
    side = torch.get_device_module(accelerator).Stream()

    def function(a: Tensor) -> Tensor:
        y = a + 1
        side.synchronize()
        return y

    kind, text = raised(function, x(accelerator))
    assert kind in ("NativeStreamError", "Unsupported")
    assert named(text, function, 2)


@pytest.mark.npu("torch_npu does not say which priority a stream has")
def test_a_priority_that_the_device_does_not_have() -> None:
    def function(a: Tensor) -> Tensor:
        with air.scope.npu_stream_switch("ranked", 17):
            return a + 1

    kind, text = raised(function, x(), **{"air.sync": "off", "air.stream_priority": "error"})
    assert kind == "StreamPriorityError"
    assert "17" in text


@pytest.mark.npu("max-autotune does not serve CUDA tensors")
def test_a_tagged_event_in_max_autotune() -> None:
    event = air.ops.npu_create_tagged_event("npu: mode")

    def function(a: Tensor) -> Tensor:
        y = a + 1
        air.ops.npu_tagged_event_record(event)
        return y

    kind, text = raised(function, x(), mode="max-autotune")
    assert kind == "UnsupportedGraphError"
    assert "use config.mode = 'reduce-overhead'" in text
    assert named(text, function, 2)


@pytest.mark.npu("only a second NPU is refused")
def test_S27_a_graph_for_a_second_npu(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(a: Tensor) -> Tensor:
        return a + 1

    monkeypatch.setattr(_devices, "_npu_of_process", [torch.device("npu", 7)])
    kind, text = raised(function, x())
    assert kind == SecondDevice.__name__
    assert "npu:7" in text
    assert "torchrun" in text


def test_a_scope_of_the_graph_engine_in_a_captured_graph_is_a_warning_at_its_line(accelerator: str) -> None:
    def function(a: Tensor) -> Tensor:
        with air.scope.op_never_timeout():
            return a + 1

    config = CompilerConfig()
    config.mode = "reduce-overhead"
    compiled: Any = torch.compile(
        function, backend=air.get_npu_backend(compiler_config=config), fullgraph=True
    )
    with pytest.warns(UserWarning, match="max-autotune only") as caught:
        compiled(x(accelerator))
    ours = [w for w in caught if "max-autotune only" in str(w.message)]
    assert (ours[0].filename, ours[0].lineno) == (__file__, function.__code__.co_firstlineno + 1)
