"""Streams and events that a model holds, or makes in its forward: a file knows them by their place, not their name."""

from __future__ import annotations

import copy
import copyreg
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from air_backend._native_objects import native_objects_by_type
from air_backend.inference import cache_compile
from air_config import CompilerConfig
from air_graph.testing import devices

DEVICE = devices.accelerator() or "cpu"
device_module: Any = torch.get_device_module(DEVICE)


@pytest.fixture(autouse=True)
def counted() -> None:
    counters.clear()


def traced() -> int:
    """How many graphs Dynamo has made since the test began."""
    return int(counters["stats"].get("unique_graphs", 0))


class TwoStreams(nn.Module):
    """Half of the work on a stream of its own; the events lie on the model, or are made in the call."""

    def __init__(self, *, held: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, device=DEVICE))
        self.side = device_module.Stream()
        self.forked = device_module.Event() if held else None

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.weight
        forked = device_module.Event() if self.forked is None else self.forked
        forked.record()
        with device_module.stream(self.side):
            self.side.wait_event(forked)
            z = y.exp()
            joined = device_module.Event()
            joined.record()
        joined.wait()
        return y + z


def cached(model: nn.Module, folder: Path) -> Any:
    config = CompilerConfig()
    config.set("mode", "reduce-overhead")
    return cache_compile(model.forward, config=config, cache_dir=folder)


@pytest.mark.parametrize("held", [True, False])
def test_A51_a_model_with_a_stream_and_an_event_is_kept_for_other_processes(
    accelerator: str, held: bool, tmp_path: Path
) -> None:
    x = torch.randn(3, 4, device=accelerator)
    for count in (1, 0):  # two processes, as far as Dynamo can tell
        torch._dynamo.reset()
        before = traced()
        model, _ = TwoStreams(held=held), device_module.Stream()  # the next one's stream has another number
        run = cached(model, tmp_path)
        for _ in range(3):
            torch.testing.assert_close(run(x), model(x))
        assert traced() - before == count
        assert [path.name for path in run.folder.iterdir()] == ["compiled_module"]


def test_A51_a_model_without_the_event_is_traced_by_itself(accelerator: str, tmp_path: Path) -> None:
    x = torch.randn(3, 4, device=accelerator)
    for held in (True, False, True, False):
        torch._dynamo.reset()
        model = TwoStreams(held=held)
        torch.testing.assert_close(cached(model, tmp_path)(x), model(x))
    files = [path.name for path in tmp_path.rglob("compiled_module*")]
    assert sorted(files) == ["compiled_module", "compiled_module.1"]
    assert traced() == 2


def test_streams_and_events_are_pickled_by_their_type_only_while_a_graph_is_written() -> None:
    before = dict(copyreg.dispatch_table)
    event, stream = torch.Event("cpu"), torch.Stream(device="cpu")
    with native_objects_by_type():
        assert type(copy.copy(event)) is torch.Event
        assert copy.copy(stream).device == stream.device
    assert copyreg.dispatch_table == before
    with pytest.raises(TypeError, match="cannot pickle"):
        copy.copy(event)
