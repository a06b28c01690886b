"""What the tests of buckets compile with and call: a function, rows of a batch, and the one run that was made."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from air_backend import CompilerConfig, _records, get_npu_backend
from air_backend.inference import set_dim_buckets


def compiled(function: Any, mode: str = "reduce-overhead", **options: Any) -> Any:
    config = CompilerConfig()
    config.set("mode", mode)
    for path, value in options.items():
        config.set(path.replace("__", "."), value)
    return torch.compile(function, backend=get_npu_backend(compiler_config=config), fullgraph=True)


def rows(count: int, *shape: int, device: str = "cpu") -> Tensor:
    """A random input whose first dim has buckets."""
    tensor = torch.randn(count, *shape, device=device)
    set_dim_buckets(tensor, {0: [4, 8]})
    return tensor


def only_run() -> Any:
    ((_, run),) = _records.alive()
    return run
