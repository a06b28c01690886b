"""Gives back what captures hold, for a model that sleeps: `release()`.

    air_backend.release()            what all compiled functions of the process hold
    air_backend.release(model)       what the graphs hold that read a parameter or a buffer of this model

A capture keeps the memory of its inputs: weights, caches, and what its operators compute into. The next call of a
function captures again.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import nn

from air_backend import _records
from air_backend._uncompiled import uncompiled
from air_backend.errors import NoModule
from air_graph import storage_of


@runtime_checkable
class _Captures(Protocol):
    """An executor that captures."""

    def reads_one_of(self, storages: set[int]) -> bool: ...

    def release(self) -> None: ...


def release(*models: nn.Module) -> None:
    """Gives back the memory that captures hold; the next call of each function captures again.

    Args:
        models: whose captures; of all compiled functions where there is none. A graph belongs to a model when it reads
            one of its parameters or buffers where it lies.
    """
    storages: set[int] = set()
    for model in models:
        plain = uncompiled(model)
        if not isinstance(plain, nn.Module):
            raise NoModule(type(plain).__name__)
        storages.update(map(storage_of, (*plain.parameters(), *plain.buffers())))
    for _, run in _records.alive():
        if isinstance(run, _Captures) and (not models or run.reads_one_of(storages)):
            run.release()
