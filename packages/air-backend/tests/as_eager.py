"""A compiled function against eager: results, and what it has written into its arguments, over several calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map_only

#: Relative and absolute, by what the operators of an NPU compute in.
CLOSE = {
    torch.float32: (1e-4, 1e-5),
    torch.float16: (2e-2, 2e-2),
    torch.bfloat16: (4e-2, 4e-2),
    torch.int8: (0.0, 1.0),
}


def copied(values: Any) -> Any:
    return tree_map_only(Tensor, torch.clone, values)


def assert_same(mine: Any, theirs: Any) -> None:
    mine, theirs = (tree_flatten(values)[0] for values in (mine, theirs))
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        if isinstance(other, Tensor):
            relative, absolute = CLOSE.get(other.dtype, (0.0, 0.0))
            torch.testing.assert_close(one, other, rtol=relative, atol=absolute)
        else:
            assert one == other


def same_as_eager(
    compiled: Callable[..., Any], eager: Callable[..., Any], *calls: tuple[Any, ...], repeat: int = 2
) -> None:
    """Each call is made `repeat` times: the first captures or compiles, the others replay."""
    with torch.no_grad():
        for arguments in calls:
            for _ in range(repeat):
                mine, theirs = copied(arguments), copied(arguments)
                found, expected = compiled(*mine), eager(*theirs)
                assert_same(found, expected)
                assert_same(mine, theirs)
