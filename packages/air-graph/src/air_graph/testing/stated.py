"""Compares what operators give with what torch says of their results while it traces.

    with StatedOtherwise() as seen:
        torch.pow(2.0, x.t())
    seen.found      {"aten::pow.Scalar": {"strides"}}

Everything that a compiler decides of a result (views or copies, types, sizes) it decides by what torch says of it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only


class StatedOtherwise(TorchDispatchMode):
    """Asks each operator that runs for its result on fake values as well; `found` has what differs, by operator."""

    def __init__(self, device: str = "cpu") -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's has no types
        self.device = device
        """Results on devices of this type are compared."""
        self.found: defaultdict[str, set[str]] = defaultdict(set)
        self.asked = 0
        """How many calls have been compared."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        stated = _stated(func, args, kwargs)  # before it runs: nothing is drawn or written
        result = func(*args, **kwargs)
        if stated is None:
            return result
        self.asked += 1
        for real, fake in zip(tree_leaves(result), tree_leaves(stated), strict=False):
            if isinstance(real, Tensor) and isinstance(fake, Tensor) and real.device.type == self.device:
                for what in _differences(real, fake):
                    self.found[func._schema.name].add(what)
        return result


def _stated(func: Any, args: Any, kwargs: Any) -> Any:
    """The result on fake values; None where an operator has none of its own, or nothing is known of it."""
    if func.is_view or func._schema.is_mutable or torch.Tag.nondeterministic_seeded in func.tags:
        return None
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = tree_map_only(Tensor, lambda x: mode.from_tensor(x.detach()), (args, kwargs))
    try:
        with mode:
            return func(*fakes[0], **fakes[1])
    except Exception:  # an operator without a fake kernel states nothing
        return None


def _differences(real: Tensor, stated: Tensor) -> Iterator[str]:
    if real.dtype != stated.dtype:
        yield "dtype"
    if real.layout is not torch.strided or stated.layout is not torch.strided:
        return
    if real.dim() != stated.dim() or any(
        not _same(*pair) for pair in zip(real.shape, stated.shape, strict=True)
    ):
        yield "shape"
    elif real.numel():
        pairs = zip(real.stride(), stated.stride(), real.shape, strict=True)
        if any(size > 1 and not _same(one, other) for one, other, size in pairs):
            yield "strides"


def _same(real: int, stated: int | torch.SymInt) -> bool:
    """A number that depends on data is known to nobody who traces."""
    return real == stated if isinstance(stated, int) else True


def run_laid_out_anyhow(
    chance: random.Random, program: Callable[[Callable[[Any], Any]], tuple[Any, Any]], device: str = "cpu"
) -> None:
    """Runs a program and its gradients with each tensor, and each gradient that is given, in a layout of its own.

    The program is given what lays a value out, and tells its results and its operands. What raises says nothing.
    """

    def lay(value: Any) -> Any:
        return laid_out_anyhow(chance, value, device)

    try:
        found, operands = program(lay)
        results, inputs = (
            [x for x in tree_leaves(each) if isinstance(x, Tensor) and x.requires_grad]
            for each in (found, operands)
        )
        if results and inputs:
            given = [lay(torch.randn_like(x)) for x in results]
            torch.autograd.grad(results, inputs, given, allow_unused=True)
    except Exception:  # an operator that does not take this layout
        return


def laid_out_anyhow(chance: random.Random, value: Any, device: str = "cpu") -> Any:
    """A tensor with its axes in any order in memory of its own, in a third of the cases in theirs."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        return value
    axes = list(range(value.dim()))
    if chance.random() > 1 / 3:
        chance.shuffle(axes)
    back = [axes.index(axis) for axis in range(len(axes))]
    laid = value.detach().permute(axes).clone(memory_format=torch.contiguous_format).to(device).permute(back)
    return laid.requires_grad_(value.requires_grad)
