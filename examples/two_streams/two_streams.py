"""Two branches of a model on two streams, and what is said when a wait is missing.

    python examples/two_streams/two_streams.py

The same file runs on an NPU when the tensors are moved there; on the CPU the order of the streams is modelled.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

import air_backend as torchair


class TwoBranches(nn.Module):
    """Two products that do not depend on each other, and a sum that needs both."""

    def __init__(self, waits: bool) -> None:
        super().__init__()
        self.waits = waits
        self.done = torchair.ops.npu_create_tagged_event(tag=f"done-{waits}")

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        with torchair.scope.npu_stream_switch("branch"):
            left = x @ x
            torchair.ops.npu_tagged_event_record(self.done)
        right = y @ y
        if self.waits:
            torchair.ops.npu_tagged_event_wait(self.done)
        return left + right


def main() -> None:
    config = torchair.CompilerConfig()
    config.mode = "reduce-overhead"
    x, y = torch.randn(16, 16), torch.randn(16, 16)
    for waits in (True, False):
        torch._dynamo.reset()
        backend = torchair.get_npu_backend(compiler_config=config)
        compiled = torch.compile(TwoBranches(waits), backend=backend, fullgraph=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compiled(x, y)
        races = [w for w in caught if "StreamRace" in w.category.__name__]
        print("with the wait:" if waits else "without the wait:", len(races), "race(s)")
        for race in races:
            print(race.message)
        assert bool(races) != waits


if __name__ == "__main__":
    main()
