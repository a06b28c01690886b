"""Identity of the memory behind values, real or fake."""

from __future__ import annotations

from typing import Any

import torch

StorageKey = int
"""What tells one storage from another while both are alive."""


def storage_key(tensor: torch.Tensor) -> StorageKey | None:
    """The storage of a tensor; `None` without strided memory."""
    if tensor.layout is not torch.strided:
        return None
    return int(tensor.untyped_storage()._cdata)


def leaf_storages(value: Any) -> tuple[StorageKey, ...]:
    """The storages of a tensor, or of the tensors in a list."""
    leaves = value if isinstance(value, (list, tuple)) else (value,)
    keys = (storage_key(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))
    return tuple(key for key in keys if key is not None)
