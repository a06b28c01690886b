"""A patch that is refused, or interrupted, leaves no replay waiting on the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from air_aclgraph import AcceleratorRuntime
from air_aclgraph._runtime import Recording, Request, UpdatableCall

air_sim = pytest.importorskip("air_sim")
pytestmark = pytest.mark.npu("air-sim injects the faults, and only CANN patches captured tasks")

FIXED = {"num_heads": 2, "num_key_value_heads": 2, "input_layout": "BSH", "scale": 0.25}
NAME = "actual_seq_lengths_kv"


def npu() -> Any:
    """The device module of torch_npu."""
    return torch.get_device_module("npu")


def attention(q: Tensor, k: Tensor, v: Tensor, length: int) -> Tensor:
    given = {**FIXED, NAME: [length]}
    result: Tensor = torch.ops.npu.npu_fused_infer_attention_score.default(q, k, v, **given)[0]
    return result


def made_inputs() -> tuple[Tensor, ...]:
    shapes = [(1, 1, 32), (1, 16, 32), (1, 16, 32)]
    return tuple(torch.randn(shape, device="npu", dtype=torch.float16) for shape in shapes)


def recorded(inputs: tuple[Tensor, ...]) -> Recording:
    """Two attentions, one after the other."""
    runtime = AcceleratorRuntime("npu:0")
    call = UpdatableCall(torch.ops.npu.npu_fused_infer_attention_score.default, {NAME: NAME})

    def body(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        first = runtime.updatable(call, (q, k, v), {**FIXED, NAME: [5]})[0]
        return (runtime.updatable(call, (first, k, v), {**FIXED, NAME: [5]})[0],)

    return runtime.record(body, inputs, Request())


@pytest.fixture
def inputs() -> tuple[Tensor, ...]:
    return made_inputs()


@pytest.fixture
def recording(inputs: tuple[Tensor, ...]) -> Iterator[Recording]:
    made = recorded(inputs)
    yield made
    air_sim.change(fault="")
    made.release()


def replay(recording: Recording, *lengths: int) -> None:
    assert recording.replay_with is not None
    recording.replay_with([{NAME: [length]} for length in lengths])


def is_right(recording: Recording, inputs: tuple[Tensor, ...], first: int, second: int) -> bool:
    replay(recording, first, second)
    q, k, v = inputs
    expected = attention(attention(q, k, v, first), k, v, second)
    return torch.allclose(recording.outputs[0], expected, rtol=1e-2, atol=1e-2)


class Looks(TorchDispatchMode):
    """Sees operators, as the mode does with which AOTAutograd checks the first call of a compiled function."""

    seen: list[str]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_mode_around_the_first_call_does_not_see_what_a_capture_and_a_patch_call(
    inputs: tuple[Tensor, ...],
) -> None:
    looks = Looks()  # type: ignore[no-untyped-call]  # of torch
    looks.seen = []
    with looks:
        made = recorded(inputs)
        replay(made, 4, 7)
        torch.ones(1, device="npu")
    npu().synchronize()
    made.release()
    assert "aten.ones.default" in looks.seen
    assert [name for name in looks.seen if name.endswith(".out")] == []


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    "function",
    [
        "aclmdlRICaptureTaskUpdateBegin",
        "aclnnFusedInferAttentionScoreV3GetWorkspaceSize",
        "aclmdlRICaptureTaskUpdateEnd",
    ],
)
def test_a_patch_that_the_device_refuses_raises_and_the_calls_after_it_are_right(
    recording: Recording, inputs: tuple[Tensor, ...], function: str, number: int
) -> None:
    assert is_right(recording, inputs, 9, 3)
    npu().synchronize()
    air_sim.change(fault=f"{function}@{number}")
    with pytest.raises(RuntimeError, match=f"(?s){function.removesuffix('GetWorkspaceSize')}.*507899"):
        replay(recording, 4, 7)
    npu().synchronize()  # nothing waits
    for first, second in ((4, 7), (4, 7), (2, 7), (16, 1), (9, 3)):
        assert is_right(recording, inputs, first, second)


def test_a_launch_that_the_device_refuses_leaves_no_event_behind(
    recording: Recording, inputs: tuple[Tensor, ...]
) -> None:
    assert is_right(recording, inputs, 9, 3)
    npu().synchronize()
    air_sim.change(fault="aclmdlRIExecuteAsync@1")
    with pytest.raises(RuntimeError, match="507899"):
        replay(recording, 4, 7)
    air_sim.change(delay_us=2000, seed=3)  # a replay that did not wait would run before its patch
    try:
        for first, second in ((4, 7), (2, 8), (16, 1)):
            assert is_right(recording, inputs, first, second)
    finally:
        air_sim.change(delay_us=0, seed=0)


@pytest.mark.parametrize(
    "place", ["graph_task_update_begin", "graph_task_update_end", "current_stream", "stream"]
)
def test_an_interrupt_in_the_middle_of_the_patches_leaves_nothing_waiting(
    recording: Recording, inputs: tuple[Tensor, ...], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    assert is_right(recording, inputs, 9, 3)
    before = getattr(npu(), place)
    left = [KeyboardInterrupt()]

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        if left:
            raise left.pop()
        return before(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(npu(), place, interrupted)
        with pytest.raises(KeyboardInterrupt):
            replay(recording, 4, 7)
    npu().synchronize()
    for first, second in ((4, 7), (2, 8), (16, 1)):
        assert is_right(recording, inputs, first, second)
