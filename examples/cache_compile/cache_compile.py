"""What one process traced, the next one reads: `cache_compile` over two processes.

    python examples/cache_compile/cache_compile.py

The second process neither runs Dynamo nor AOTAutograd; it lowers the graph that it finds for its own device.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from air_backend import CompilerConfig
from air_backend.inference import cache_compile


class Decoder(nn.Module):
    """A few layers; the method is what is kept."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))

    def decode(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + torch.relu(layer(x))
        return x


def serve(folder: str) -> None:
    """What a process of a service does when it starts."""
    config = CompilerConfig()
    config.mode = "reduce-overhead"
    model = Decoder().eval()
    decode = cache_compile(model.decode, config=config, cache_dir=folder)
    x = torch.randn(2, 32)
    start = time.perf_counter()
    with torch.no_grad():
        found = decode(x)
        took = time.perf_counter() - start
        torch.testing.assert_close(found, model.decode(x))
    traced = "traced" if counters["stats"]["unique_graphs"] else "read the file"
    print(f"this process {traced}; its first call took {took:.2f} s")


def main() -> None:
    if len(sys.argv) > 1:
        serve(sys.argv[1])
        return
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            subprocess.run([sys.executable, __file__, folder], check=True)


if __name__ == "__main__":
    main()
