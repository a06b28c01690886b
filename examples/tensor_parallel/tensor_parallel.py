"""A block that is split over two processes; the collectives are inside the compiled graph.

    torchrun --standalone --nproc-per-node 2 examples/tensor_parallel/tensor_parallel.py

CPU tensors communicate by gloo, NPU tensors by HCCL: the program is the same.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from air_backend import CompilerConfig, get_npu_backend

HIDDEN = 32


class Block(nn.Module):
    """A gated feed-forward block, as in Llama."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.gate = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


def main() -> None:
    rank = int(os.environ["LOCAL_RANK"])
    on_npu = hasattr(torch, "npu") and torch.npu.is_available()
    device = "npu" if on_npu else "cpu"
    if on_npu:
        torch.npu.set_device(rank)  # before anything is moved to the device
    dist.init_process_group("hccl" if on_npu else "gloo")
    mesh = init_device_mesh(device, (dist.get_world_size(),))

    torch.manual_seed(0)  # every rank makes the whole model, to compare with
    whole = nn.Sequential(Block(), Block()).to(device).eval()
    torch.manual_seed(0)
    split = nn.Sequential(Block(), Block()).to(device).eval()
    for block in split:
        columns = {"gate": ColwiseParallel(), "up": ColwiseParallel()}
        parallelize_module(block, mesh, {**columns, "down": RowwiseParallel()})
    x = torch.randn(4, HIDDEN, device=device)

    for mode in ("reduce-overhead", "max-autotune"):
        torch._dynamo.reset()
        config = CompilerConfig()
        config.set("mode", mode)
        compiled = torch.compile(split, backend=get_npu_backend(compiler_config=config), fullgraph=True)
        with torch.no_grad():
            for _ in range(3):
                torch.testing.assert_close(compiled(x), whole(x), rtol=1e-4, atol=1e-4)
        if rank == 0:
            print(f"{mode}: {dist.get_world_size()} ranks compute what one computes", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
