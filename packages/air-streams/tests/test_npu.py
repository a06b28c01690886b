"""The same programs on torch_npu: real streams and events, on hardware or on air-sim."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch._dynamo import graph_bytecode_inputs

import air_streams as tng
from streams_models import DependentModel, GuideModel, compiled, inputs
from test_guide import DEPENDENT_PLAN, GUIDE_PLAN

npu: Any = getattr(torch, "npu", None)

pytestmark = [
    pytest.mark.npu,
    pytest.mark.skipif(
        npu is None or not npu.is_available(), reason="needs torch_npu on an NPU or on air-sim"
    ),
]


def on_cpu(values: Any) -> list[torch.Tensor]:
    npu.synchronize()
    return [value.cpu() for value in values]


event, other = tng.ops.npu_create_tagged_event("made"), tng.ops.npu_create_tagged_event("used")


@pytest.mark.parametrize("dynamic", [False, True])
def test_S22_the_guide_model_equals_the_cpu_and_has_the_recorded_plan(dynamic: bool) -> None:
    expected = GuideModel("cpu")(*inputs())
    model, given = GuideModel("npu"), [value.to("npu") for value in inputs()]
    torch.testing.assert_close(on_cpu(model(*given)), list(expected))
    with warnings.catch_warnings():
        warnings.simplefilter("error", tng.StreamRaceWarning)
        result, backend = compiled(model, *given, dynamic=dynamic)
    torch.testing.assert_close(on_cpu(result), list(expected))
    assert backend.plans[0].describe() == GUIDE_PLAN


def test_the_dependent_model_equals_the_cpu_in_many_runs() -> None:
    expected = DependentModel()(*inputs())
    model, given = DependentModel(), [value.to("npu") for value in inputs()]
    for _ in range(20):
        torch.testing.assert_close(on_cpu(model(*given)), list(expected))
    result, backend = compiled(model, *given)
    torch.testing.assert_close(on_cpu(result), list(expected))
    assert backend.plans[0].describe() == DEPENDENT_PLAN


def test_a_priority_that_cannot_be_confirmed_is_refused_by_name() -> None:
    with pytest.raises(tng.errors.StreamPriorityError, match="'urgent'"):
        tng.stream_for("urgent", "npu", priority=-1)


def native(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    ready = npu.Event()
    stream = npu.Stream()
    y = x + 1
    ready.record()
    with npu.stream(stream):
        ready.wait()
        z = y * 2
        y.record_stream(stream)
    npu.current_stream().wait_stream(stream)
    return (z + y,)


def native_with_set_stream(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    ready = npu.Event()
    stream = npu.Stream()
    before = npu.current_stream()
    y = x + 1
    ready.record()
    ready.wait(stream)
    npu.set_stream(stream)
    z = y * 2
    y.record_stream(stream)
    npu.set_stream(before)
    before.wait_stream(stream)
    return (z + y,)


def native_by_record_event(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    stream = npu.Stream()
    y = x + 1
    ready = npu.current_stream().record_event()
    stream.wait_event(ready)
    with npu.stream(stream):
        z = y * 2
        y.record_stream(stream)
        done = stream.record_event()
    npu.current_stream().wait_event(done)
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
def test_A42_native_and_tagged_forms_have_the_same_plan(form: Any, dynamic: bool) -> None:
    x = torch.arange(8.0).to("npu")
    by_native, from_native = compiled(form, x, dynamic=dynamic)
    by_tag, from_tag = compiled(tagged, x, dynamic=dynamic)
    torch.testing.assert_close(on_cpu(by_native), on_cpu(by_tag))
    torch.testing.assert_close(on_cpu(by_native), [(torch.arange(8.0) + 1) * 3])
    assert from_native.plans[0].describe() == from_tag.plans[0].describe()


@pytest.mark.skipif(
    not hasattr(graph_bytecode_inputs, "CURRENT_STREAM_INDEX"),
    reason="torch 2.11 does not tell which stream the function began on",
)
def test_leaving_another_stream_set_is_refused() -> None:
    stream = npu.Stream()

    def leaves(x: torch.Tensor) -> torch.Tensor:
        npu.set_stream(stream)
        return x + 1

    before = npu.current_stream()
    try:
        with pytest.raises(Exception, match="another stream set"):
            compiled(leaves, torch.ones(2).to("npu"))
    finally:
        npu.set_stream(before)


def test_the_current_stream_after_set_stream_cannot_be_told_and_is_refused() -> None:
    stream, ready = npu.Stream(), npu.Event()

    def vague(x: torch.Tensor) -> torch.Tensor:
        before = npu.current_stream()
        npu.set_stream(stream)
        y = x + 1
        ready.record()
        npu.set_stream(before)
        return y

    before = npu.current_stream()
    try:
        with pytest.raises(Exception, match="which stream 'the current stream' means"):
            compiled(vague, torch.ones(2).to("npu"))
    finally:
        npu.set_stream(before)


def test_making_the_host_wait_is_refused() -> None:
    def waits(x: torch.Tensor) -> torch.Tensor:
        npu.current_stream().synchronize()
        return x + 1

    with pytest.raises(Exception, match="host wait"):
        compiled(waits, torch.ones(2).to("npu"))
