"""Parts of one tensor, written on several streams: the waits that only the graph needs."""

from __future__ import annotations

import warnings

import pytest
import torch

from air_streams import StreamRaceWarning, errors, ops, scope
from air_streams.errors import StreamCheckError
from streams_models import compiled

ready, done = (ops.npu_create_tagged_event(tag) for tag in ("ready", "done"))


def halves(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Each stream writes and reads a half of its own; nothing of it is wrong."""
    out = x + 0
    ops.npu_tagged_event_record(ready)
    with scope.npu_stream_switch("side"):
        ops.npu_tagged_event_wait(ready)
        out[:2].mul_(2)
        upper = out[:2] + 1
        ops.npu_tagged_event_record(done)
    out[2:].mul_(3)
    lower = out[2:] + 1
    ops.npu_tagged_event_wait(done)
    return out, upper, lower


def overlapping(x: torch.Tensor) -> torch.Tensor:
    """A race in the program: both have the second row."""
    out = x + 0
    ops.npu_tagged_event_record(ready)
    with scope.npu_stream_switch("side"):
        ops.npu_tagged_event_wait(ready)
        out[:2].mul_(2)
        ops.npu_tagged_event_record(done)
    lower = out[1:] + 1
    ops.npu_tagged_event_wait(done)
    return lower + out[1:]


@pytest.mark.parametrize("sync", ["check", "error", "auto"])
def test_halves_written_on_two_streams_are_ordered_and_no_fault_of_the_program(sync: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", StreamRaceWarning)
        _, backend = compiled(halves, torch.randn(4, 4), sync=sync)
    (plan,) = backend.plans
    assert plan.races() == ()
    assert plan.sync_report.inserted


def test_parts_that_share_a_row_are_a_race_of_the_program() -> None:
    with pytest.warns(StreamRaceWarning, match="slice_scatter"):
        _, backend = compiled(overlapping, torch.randn(4, 4))
    assert backend.plans[0].races() == ()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="1 finding") as caught:
        compiled(overlapping, torch.randn(4, 4), sync="error")
    assert isinstance(caught.value.inner_exception, StreamCheckError)
    assert issubclass(StreamCheckError, errors.StreamsError)


def test_where_the_bytes_are_not_known_it_is_told_and_ordered() -> None:
    with pytest.warns(StreamRaceWarning, match="slice_scatter"):
        _, backend = compiled(halves, torch.randn(4, 4), dynamic=True)
    assert backend.plans[0].races() == ()


def test_places_of_a_dynamic_size_are_told_and_ordered() -> None:
    def written(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        half = x.shape[0] // 2
        out = x + 0
        ops.npu_tagged_event_record(ready)
        with scope.npu_stream_switch("side"):
            ops.npu_tagged_event_wait(ready)
            out.as_strided((half,), (1,)).mul_(2)
            ops.npu_tagged_event_record(done)
        other = out[half:] + 1
        ops.npu_tagged_event_wait(done)
        return out, other

    x = torch.randn(8)
    expected = written(x)
    with pytest.warns(StreamRaceWarning, match="as_strided_scatter"):
        result, backend = compiled(written, x, dynamic=True)
    torch.testing.assert_close(result, expected)
    assert backend.plans[0].races() == ()


def test_one_row_written_and_another_read_beside_it() -> None:
    def rows(x: torch.Tensor) -> torch.Tensor:
        out = x.clone()
        ops.npu_tagged_event_record(ready)
        with scope.npu_stream_switch("side"):
            ops.npu_tagged_event_wait(ready)
            out[0].mul_(2)
            ops.npu_tagged_event_record(done)
        other = out[1] + 1
        ops.npu_tagged_event_wait(done)
        return other + out[0]

    with warnings.catch_warnings():
        warnings.simplefilter("error", StreamRaceWarning)
        _, backend = compiled(rows, torch.randn(4, 4))
    assert backend.plans[0].races() == ()
