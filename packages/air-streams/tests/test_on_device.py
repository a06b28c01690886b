"""The same programs on an accelerator: real streams and events, of an NPU, of air-sim or of a CUDA device."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch._dynamo.variables.tensor import TensorVariable

import air_streams as tng
from air_graph.testing import devices
from streams_models import DEPENDENT_PLAN, GUIDE_PLAN, DependentModel, GuideModel, compiled, inputs

device_module: Any = torch.get_device_module(devices.accelerator() or "cpu")


def on_cpu(values: Any) -> list[torch.Tensor]:
    device_module.synchronize()
    return [value.cpu() for value in values]


event, other = tng.ops.npu_create_tagged_event("made"), tng.ops.npu_create_tagged_event("used")


@pytest.mark.parametrize("dynamic", [False, True])
def test_S22_the_guide_model_equals_the_cpu_and_has_the_recorded_plan(
    accelerator: str, dynamic: bool
) -> None:
    expected = GuideModel("cpu")(*inputs())
    model, given = GuideModel(accelerator), [value.to(accelerator) for value in inputs()]
    torch.testing.assert_close(on_cpu(model(*given)), list(expected))
    with warnings.catch_warnings():
        warnings.simplefilter("error", tng.StreamRaceWarning)
        result, backend = compiled(model, *given, dynamic=dynamic)
    torch.testing.assert_close(on_cpu(result), list(expected))
    assert backend.plans[0].describe() == GUIDE_PLAN


def test_the_dependent_model_equals_the_cpu_in_many_runs(accelerator: str) -> None:
    expected = DependentModel()(*inputs())
    model, given = DependentModel(), [value.to(accelerator) for value in inputs()]
    for _ in range(20):
        torch.testing.assert_close(on_cpu(model(*given)), list(expected))
    result, backend = compiled(model, *given)
    torch.testing.assert_close(on_cpu(result), list(expected))
    assert backend.plans[0].describe() == DEPENDENT_PLAN


@pytest.mark.npu("torch_npu does not say which priority a stream has")
def test_a_priority_that_cannot_be_confirmed_is_refused_by_name() -> None:
    with pytest.raises(tng.errors.StreamPriorityError, match="'urgent'"):
        tng.stream_for("urgent", "npu", priority=-1)


def native(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    ready = device_module.Event()
    stream = device_module.Stream()
    y = x + 1
    ready.record()
    with device_module.stream(stream):
        ready.wait()
        z = y * 2
        y.record_stream(stream)
    device_module.current_stream().wait_stream(stream)
    return (z + y,)


def native_with_set_stream(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    ready = device_module.Event()
    stream = device_module.Stream()
    before = device_module.current_stream()
    y = x + 1
    ready.record()
    ready.wait(stream)
    device_module.set_stream(stream)
    z = y * 2
    y.record_stream(stream)
    device_module.set_stream(before)
    before.wait_stream(stream)
    return (z + y,)


def native_by_record_event(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    stream = device_module.Stream()
    y = x + 1
    ready = device_module.current_stream().record_event()
    stream.wait_event(ready)
    with device_module.stream(stream):
        z = y * 2
        y.record_stream(stream)
        done = stream.record_event()
    device_module.current_stream().wait_event(done)
    return (z + y,)


def tagged(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x + 1
    tng.ops.npu_tagged_event_record(event)
    with tng.scope.npu_stream_switch("t"):
        tng.ops.npu_tagged_event_wait(event)
        z = y * 2
        tng.ops.npu_record_tagged_stream(y, "t")
        tng.ops.npu_tagged_event_record(other)
    tng.ops.npu_tagged_event_wait(other)
    return (z + y,)


@pytest.mark.parametrize("form", [native, native_with_set_stream, native_by_record_event])
@pytest.mark.parametrize("dynamic", [False, True])
def test_A42_native_and_tagged_forms_have_the_same_plan(accelerator: str, form: Any, dynamic: bool) -> None:
    if dynamic and not hasattr(TensorVariable, "method_record_stream"):
        pytest.skip("this torch traces no record_stream of a tensor of unknown size")
    x = torch.arange(8.0).to(accelerator)
    by_native, from_native = compiled(form, x, dynamic=dynamic)
    by_tag, from_tag = compiled(tagged, x, dynamic=dynamic)
    torch.testing.assert_close(on_cpu(by_native), on_cpu(by_tag))
    torch.testing.assert_close(on_cpu(by_native), [(torch.arange(8.0) + 1) * 3])
    assert from_native.plans[0].describe() == from_tag.plans[0].describe()


def test_A42_a_stream_that_a_function_leaves_set_is_told_to_whoever_calls_the_graph(accelerator: str) -> None:
    stream, before = device_module.Stream(), device_module.current_stream()
    found: list[tuple[Any, Any]] = []

    def look(gm: torch.fx.GraphModule, example_inputs: Any) -> Any:
        outside = tng.normalize(gm).outside
        assert outside.ends is not None
        found.append((outside.objects()[outside.ends], device_module.current_stream()))
        return gm

    def leaves(x: torch.Tensor) -> torch.Tensor:
        stream.wait_stream(device_module.current_stream())
        device_module.set_stream(stream)
        return x + 1

    try:
        torch.compile(leaves, backend=look)(torch.ones(2).to(accelerator))
    finally:
        device_module.set_stream(before)
    assert found == [(stream, before)], "the second is current again: tracing had set the first"


def test_the_current_stream_after_set_stream_cannot_be_told_and_is_refused(accelerator: str) -> None:
    stream, ready = device_module.Stream(), device_module.Event()

    def vague(x: torch.Tensor) -> torch.Tensor:
        before = device_module.current_stream()
        device_module.set_stream(stream)
        y = x + 1
        ready.record()
        device_module.set_stream(before)
        return y

    before = device_module.current_stream()
    try:
        with pytest.raises(Exception, match="which stream 'the current stream' means"):
            compiled(vague, torch.ones(2).to(accelerator))
    finally:
        device_module.set_stream(before)


def test_making_the_host_wait_is_refused(accelerator: str) -> None:
    def waits(x: torch.Tensor) -> torch.Tensor:
        device_module.current_stream().synchronize()
        return x + 1

    with pytest.raises(Exception, match="host wait"):
        compiled(waits, torch.ones(2).to(accelerator))
