"""torch's check that results of custom operators share no memory with arguments, and the calls that go without it.

In the first call of a graph AOTAutograd looks whether custom operators give back what they were given. It warns where
one does, raises where the variable `CI` is set, and does so in a mode that takes plain tensors only: with an argument
of another class every operator is a TypeError there, whether or not it is a custom one.

    loss = model(x).sum() / 2      autograd keeps 2 as a tensor; compiled autograd gives it to the graph of the backward

Such a tensor reaches every mode as the number that it stands for: to read it or to copy it is an error there as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch._functorch.config
from torch import Tensor
from torch.fx.experimental.proxy_tensor import HANDLED_TYPES
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves


def unchecked(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled` without the check."""

    def call(*args: Any) -> Any:
        with torch._functorch.config.patch(check_custom_op_aliasing=False):
            return compiled(*args)

    return call


def without_check_of_classes(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`compiled`, unchecked where the check would not take an argument; Dynamo makes a graph for each class."""
    run: Callable[..., Any] | None = None

    def call(*args: Any) -> Any:
        nonlocal run
        if run is None:
            unfit = any(_is_of_own_class(value) or _is_number(value) for value in tree_leaves(args))
            run = unchecked(compiled) if unfit else compiled
        return run(*args)

    return call


def _is_of_own_class(value: object) -> bool:
    if not isinstance(value, Tensor):
        return False
    kind = type(value.data) if isinstance(value, torch.nn.Parameter) else type(value)
    return kind not in HANDLED_TYPES and not is_traceable_wrapper_subclass(value)


class _Seen(TorchDispatchMode):
    """What modes are given for a tensor."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it unannotated
        self.value: object = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.value = args[0]
        return func(*args, **(kwargs or {}))


def _is_number(value: object) -> bool:
    """Whether a tensor stands for a number of the program, which nothing but a mode tells."""
    if type(value) is not Tensor or value.dim() or value.device.type != "cpu":
        return False
    with _Seen() as seen:
        torch.ops.aten.add.Scalar(value, 0)
    return not isinstance(seen.value, Tensor)
