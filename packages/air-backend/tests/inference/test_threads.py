"""Threads that call a cached function for the first time at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from air_backend.inference import cache_compile


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


def test_A51_threads_that_call_at_once_trace_once(tmp_path: Path) -> None:
    counters.clear()
    model, x = Plain(), torch.randn(3)
    function = cache_compile(model.forward, cache_dir=tmp_path)
    begin = threading.Barrier(4)

    def call(_: int) -> Tensor:
        begin.wait()
        result: Tensor = function(x)
        return result

    with ThreadPoolExecutor(4) as threads:
        for result in threads.map(call, range(4)):
            torch.testing.assert_close(result, model(x))
    assert counters["stats"]["unique_graphs"] == 1
    assert [path.name for path in Path(function.folder).iterdir()] == ["compiled_module"]
