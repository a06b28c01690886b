"""Runs a part of a graph that sizes alone decide once for each size, and hands out the same tensors again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class OncePerSize:
    """Keeps results by the sizes they were computed for; beyond `limit` bytes those used least lately are dropped."""

    def __init__(self, run: Callable[..., tuple[Any, ...]], limit: int) -> None:
        self._run = run
        self._limit = limit
        self._kept: OrderedDict[tuple[Any, ...], tuple[Any, ...]] = OrderedDict()
        self.nbytes = 0

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        key = tuple(tuple(arg.shape) if isinstance(arg, Tensor) else arg for arg in args)
        known = self._kept.get(key)
        if known is not None:
            self._kept.move_to_end(key)
            return known
        with torch.inference_mode(False), torch.no_grad():
            results = self._run(*args)
        self._kept[key] = results
        self.nbytes += _bytes_of(results)
        while self.nbytes > self._limit and len(self._kept) > 1:
            _, dropped = self._kept.popitem(last=False)
            self.nbytes -= _bytes_of(dropped)
        return results


def _bytes_of(results: tuple[Any, ...]) -> int:
    return sum(one.untyped_storage().nbytes() for one in results if isinstance(one, Tensor))
