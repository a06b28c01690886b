"""Identity of the memory behind values, real or fake."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import torch

StorageKey = int
"""What tells one storage from another while both are alive."""


def storage_of(tensor: torch.Tensor) -> StorageKey:
    """The storage of a tensor that has strided memory."""
    return int(tensor.untyped_storage()._cdata)


def storage_key(tensor: torch.Tensor) -> StorageKey | None:
    """The storage of a tensor; `None` without strided memory."""
    return storage_of(tensor) if tensor.layout is torch.strided else None


def by_storage(values: Iterable[Any], but: Container[StorageKey] = ()) -> list[list[int]]:
    """The places of the tensors among some values, those in one storage together; `but` are storages left out."""
    groups: dict[StorageKey, list[int]] = {}
    for place, value in enumerate(values):
        if isinstance(value, torch.Tensor) and (storage := storage_of(value)) not in but:
            groups.setdefault(storage, []).append(place)
    return list(groups.values())


def leaf_storages(value: Any) -> tuple[StorageKey, ...]:
    """The storages of a tensor, or of the tensors in a list."""
    leaves = value if isinstance(value, (list, tuple)) else (value,)
    keys = (storage_key(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor))
    return tuple(key for key in keys if key is not None)
