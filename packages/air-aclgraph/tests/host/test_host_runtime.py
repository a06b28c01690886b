"""The host runtime keeps the rules of a device."""

from __future__ import annotations

import tracemalloc

import pytest
import torch
from torch import Tensor

from air_aclgraph import HostRuntime, Recording, Request
from air_aclgraph.errors import IllegalDuringCapture, Unsupported


def record(body: object, *inputs: Tensor, runtime: HostRuntime | None = None) -> Recording:
    return (runtime or HostRuntime()).record(body, inputs, Request())  # type: ignore[arg-type]  # any function


def test_a_replay_computes_from_the_present_values() -> None:
    x = torch.randn(4)
    recording = record(lambda x: (x.exp().sum(), (x + 1)[1:].neg()), x)
    for _ in range(3):
        x.normal_()
        recording.replay()
        torch.testing.assert_close(recording.outputs[0], x.exp().sum())
        torch.testing.assert_close(recording.outputs[1], -(x + 1)[1:])


def test_a_replay_keeps_the_addresses_of_its_outputs_and_makes_no_tensor() -> None:
    x = torch.randn(64, 64)

    def body(x: Tensor) -> tuple[Tensor, ...]:
        for _ in range(20):
            x = (x @ x).tanh().relu() + x
        return (x,)

    recording = record(body, x)
    address = recording.outputs[0].data_ptr()
    with torch.profiler.profile(profile_memory=True) as profile:
        recording.replay()
    allocated = sum(e.self_cpu_memory_usage for e in profile.key_averages() if e.self_cpu_memory_usage > 0)
    assert allocated == 0
    assert recording.outputs[0].data_ptr() == address
    tracemalloc.start()
    recording.replay()
    assert tracemalloc.get_traced_memory()[0] < 2000
    tracemalloc.stop()


def test_intermediates_reuse_memory() -> None:
    runtime = HostRuntime()

    def body(x: Tensor) -> tuple[Tensor, ...]:
        for _ in range(50):
            x = x + 1
        return (x.sum(),)

    record(body, torch.randn(1000), runtime=runtime)
    assert runtime.pool_nbytes() <= 3 * 4096


def test_A28_eight_shapes_from_the_largest_down_take_the_memory_of_the_largest() -> None:
    runtime = HostRuntime()

    def body(x: Tensor) -> tuple[Tensor, ...]:
        return ((x @ x.t()).softmax(-1).sum(),)

    keep = [record(body, torch.randn(512, 64), runtime=runtime)]
    alone = runtime.pool_nbytes()
    keep += [
        record(body, torch.randn(rows, 64), runtime=runtime) for rows in (448, 384, 320, 256, 192, 128, 64)
    ]
    assert len(keep) == 8
    assert runtime.pool_nbytes() <= 1.1 * alone


def test_constants_are_computed_once() -> None:
    recording = record(lambda x: (x + torch.arange(3) * 2 + torch.full((3,), 4.0),), torch.zeros(3))
    assert recording.tasks == 2
    recording.replay()
    assert recording.outputs[0].tolist() == [4.0, 6.0, 8.0]


@pytest.mark.parametrize(
    "body",
    [
        lambda x: (x * x.sum().item(),),
        lambda x: (x[x > 0],),
        lambda x: (x.nonzero(),),
        lambda x: (x.unique(),),
    ],
    ids=["item", "mask", "nonzero", "unique"],
)
def test_what_a_device_refuses_is_refused(body: object) -> None:
    with pytest.raises(IllegalDuringCapture) as caught:
        record(body, torch.randn(4))
    assert "outside the compiled function" in caught.value.advice


def test_moving_a_tensor_to_other_memory_is_refused() -> None:
    with pytest.raises(IllegalDuringCapture, match="other memory than the one recorded"):
        record(lambda x: (x.clone().set_(torch.zeros(2)),), torch.zeros(4))


def test_random_numbers_advance_as_in_eager() -> None:
    x = torch.zeros(4)

    def body(x: Tensor) -> tuple[Tensor, ...]:
        return (
            x + torch.rand(4),
            torch.nn.functional.dropout(x + 1),
            torch.randperm(4),
            torch.bernoulli(x + 0.5),
        )

    torch.manual_seed(3)
    expected = [body(x) for _ in range(4)]
    torch.manual_seed(3)
    recording = record(body, x)
    found = [[t.clone() for t in recording.first]]
    for _ in range(3):
        recording.replay()
        found.append([t.clone() for t in recording.outputs])
    for e, f in zip(expected, found, strict=True):
        for left, right in zip(e, f, strict=True):
            torch.testing.assert_close(left, right, rtol=0, atol=0)


def test_a_pool_handle_is_refused() -> None:
    with pytest.raises(Unsupported, match="no memory pool handles"):
        HostRuntime().record(lambda: (), [], Request(pool=(0, 1)))


def test_a_recording_made_in_inference_mode_replays_outside_it() -> None:
    with torch.inference_mode():
        x = torch.randn(3)
        recording = record(lambda x: (x * 2,), x)
    recording.replay()
    torch.testing.assert_close(recording.outputs[0], x * 2)


def test_a_thousand_tasks_more_cost_a_thousand_tasks_more() -> None:
    def body(count: int) -> object:
        def run(x: Tensor) -> tuple[Tensor, ...]:
            for _ in range(count):
                x = x + 1
            return (x,)

        return run

    assert [record(body(n), torch.zeros(2)).tasks for n in (10, 1000)] == [10, 1000]


@pytest.mark.parametrize(
    "body",
    [lambda x: ((x + 1).resize_as_(torch.zeros(2)),), lambda x: (torch.add(x, 1, out=torch.ones(2)),)],
    ids=["resize_as_", "out of another size"],
)
def test_giving_a_tensor_another_size_is_refused(body: object) -> None:
    with pytest.raises(IllegalDuringCapture, match=r"other memory|the size \(4,\) of its result"):
        record(body, torch.zeros(4))


def test_an_empty_out_tensor_grows_after_it_was_read() -> None:
    def body(x: Tensor) -> tuple[Tensor, ...]:
        out = torch.ones(0)
        before = x + out.sum()
        torch.add(x, 1, out=out)
        return before, out * 2

    x = torch.zeros(4)
    recording = record(body, x)
    for _ in range(3):
        x.normal_()
        recording.replay()
        torch.testing.assert_close(recording.outputs, (x, (x + 1) * 2))


def test_a_result_that_is_not_strided_is_refused() -> None:
    with pytest.raises(IllegalDuringCapture, match="its result has layout"):
        record(lambda x: (x.to_sparse().to_dense(),), torch.eye(3))


def test_a_check_of_values_is_made_at_every_replay() -> None:
    x = torch.eye(3)
    recording = record(lambda x: (torch.linalg.inv(x),), x)
    x.zero_()
    with pytest.raises(RuntimeError, match="singular"):
        recording.replay()


def test_repeating_to_a_size_that_is_said_is_captured() -> None:
    times = torch.tensor([1, 2, 1])
    x = torch.randn(3, 2)
    recording = record(lambda x: (x.repeat_interleave(times, 0, output_size=4) + 1,), x)
    for _ in range(2):
        x.normal_()
        recording.replay()
        torch.testing.assert_close(recording.outputs[0], x.repeat_interleave(times, 0) + 1)
