"""What a case of a parallel model is given: its device, mode and ranks, and how it compiles and compares."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

from air_backend import get_npu_backend
from air_backend.demo.parallel import config_of

CALLS = 3
"""A mode compiles in the first call, replays in the next, and may hand its memory out in later ones."""


@dataclass(frozen=True)
class Setting:
    """One mode on one device, in one of the ranks."""

    device: torch.device
    mode: str

    @property
    def mesh(self) -> DeviceMesh:
        """All ranks in a row."""
        return init_device_mesh(self.device.type, (dist.get_world_size(),), mesh_dim_names=("ranks",))

    @property
    def rank(self) -> int:
        return dist.get_rank()

    def compiled(self, function: Callable[..., Any], *, fullgraph: bool = True, dynamic: bool = False) -> Any:
        backend = get_npu_backend(compiler_config=config_of(self.mode))
        return torch.compile(function, backend=backend, fullgraph=fullgraph, dynamic=dynamic)

    def random(self, *sizes: int) -> Tensor:
        """The same numbers in every rank, if all of them draw."""
        return torch.randn(*sizes).to(self.device)


Case = Callable[[Setting], None]


def whole(value: Tensor) -> Tensor:
    """The tensor that is in one process what this is in several."""
    full: Tensor = value.full_tensor() if isinstance(value, DTensor) else value
    return full


def equal(ours: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(whole(ours), whole(expected), rtol=1e-4, atol=1e-4)


def same_gradients(ours: Iterable[nn.Parameter], expected: Iterable[nn.Parameter]) -> None:
    for mine, theirs in zip(ours, expected, strict=True):
        assert (mine.grad is None) == (theirs.grad is None)
        if mine.grad is not None and theirs.grad is not None:
            equal(mine.grad, theirs.grad)
