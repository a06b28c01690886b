"""Picks the fastest Python entry to a kernel, and proves that it is the same call.

`torch.mm(a, b, out=c)` costs a third of `torch.ops.aten.mm.out(a, b, out=c)`: the first parses its arguments
in generated C++, the second converts them through the schema.  Which overload a `torch` function picks
depends on its arguments, so nothing is assumed: both calls are made once under a mode that stops them at the
dispatcher, and the fast one is taken only if it arrives there as the same overload with the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from air_aclgraph.host._recorder import Task
from air_graph import storage_of, written_values

_HOMES: Final = (torch._C._VariableFunctions, torch._C._nn, torch._C._TensorBase)


class _Probe(TorchDispatchMode):
    """Notes the first operator that reaches the dispatcher and runs nothing."""

    def __init__(self, task: Task) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it unannotated
        self.seen: list[tuple[OpOverload, tuple[Any, ...], Mapping[str, Any]]] = []
        self._answer = _answer(task)

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        self.seen.append((func, args, kwargs or {}))
        return self._answer


def _answer(task: Task) -> Any:
    assert isinstance(task.overload, OpOverload)
    if not task.overload._schema.returns:  # an in-place `_foreach_` gives nothing back
        return None
    written = written_values(task.overload, task.args, task.kwargs)
    return written[0] if len(written) == 1 else tuple(written)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return left is right or _same_number(left, right)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    return type(left) is type(right) and bool(left == right)


def _same_number(left: Any, right: Any) -> bool:
    """Two tensors that stand for the same Python number."""
    if not (isinstance(left, Tensor) and isinstance(right, Tensor)):
        return False
    wrapped = left.dim() == 0 and right.dim() == 0 and left.dtype == right.dtype
    return wrapped and left.device.type == "cpu" and storage_of(left) == storage_of(right)


def _candidates(overload: OpOverload) -> Iterator[Callable[..., Any]]:
    name = overload._schema.name.rpartition("::")[2]
    for home in _HOMES:
        found = getattr(home, name, None)
        if callable(found):
            yield found


def fastest(task: Task) -> Callable[..., Any]:
    """The cheapest callable that makes exactly the call of `task`."""
    if (
        not isinstance(task.overload, OpOverload)
        or task.allocates
        or task.patched
        or not task.overload._schema.is_mutable
        or task.overload.namespace != "aten"
    ):
        return task.call
    with _Probe(task) as reference:
        task.call(*task.args, **task.kwargs)
    for candidate in _candidates(task.overload):
        with _Probe(task) as probe:
            try:
                candidate(*task.args, **task.kwargs)
            except (TypeError, RuntimeError):
                continue  # its argument parser does not take this call: not a candidate
        if len(probe.seen) == 1 and _same(probe.seen, reference.seen):
            return candidate
    return task.call
