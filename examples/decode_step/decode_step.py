"""A decode step with a KV cache that is written in place, in both modes, on plain CPU tensors.

    python examples/decode_step/decode_step.py

`air explain` on the same function would show which copies the passes removed and why others stayed.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from air_backend import CompilerConfig, explain, get_npu_backend


class Step(nn.Module):
    """One attention layer over a cache of 64 positions."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(32, 96)
        self.register_buffer("keys", torch.zeros(64, 32))
        self.register_buffer("values", torch.zeros(64, 32))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        q, k, v = self.project(x).chunk(3, dim=-1)
        self.keys.index_copy_(0, position, k)
        self.values.index_copy_(0, position, v)
        return torch.softmax(q @ self.keys.T / 32**0.5, dim=-1) @ self.values


def main() -> None:
    x, position = torch.randn(1, 32), torch.tensor([3])
    for mode in ("reduce-overhead", "max-autotune"):
        torch.manual_seed(0)
        model = Step()
        config = CompilerConfig()
        config.set("mode", mode)
        compiled = torch.compile(model, backend=get_npu_backend(compiler_config=config))
        with torch.no_grad():
            ours = compiled(x, position).clone()
            torch.testing.assert_close(ours, model(x, position))
            report = explain(model, x, position, compiler_config=config)
        print(mode, "equals eager;", len(report.data["graphs"]), "graph")


if __name__ == "__main__":
    main()
